select postrider.detectors_pause($1, $2, $3)
