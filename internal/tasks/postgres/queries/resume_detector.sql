select postrider.detectors_resume()
