select exists (select from postrider.tasker_tasks_archive where task_uuid = $1)
