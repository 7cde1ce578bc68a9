select postrider.task_snapshot($1::uuid)::text
