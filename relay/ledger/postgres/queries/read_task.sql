select postrider.read_task($1)
