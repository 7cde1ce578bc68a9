-- The ids of at most $3 archived tasks from $1 to $2.
select task_uuid from postrider.tasker_tasks_archive where task_uuid between $1 and $2 order by task_uuid limit $3
