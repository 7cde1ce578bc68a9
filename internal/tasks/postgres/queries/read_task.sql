select postrider.read_task($1::uuid)::text
