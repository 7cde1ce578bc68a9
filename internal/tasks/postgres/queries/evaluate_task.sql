select postrider.evaluate_task($1::uuid)
