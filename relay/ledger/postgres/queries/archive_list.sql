select task_uuid, named_task_uuid, namespace_name, task_name, task_version, state, final_state, state_entered_at, context, priority,
       retry_count, idempotency_key, error_reason, metadata, dead_letters, created_at, updated_at, completed_at, archived_at
from postrider.tasker_tasks_archive
where ($1 = '' or namespace_name = $1) and ($2 = '' or task_name = $2) and ($3 = '' or final_state = $3)
  and (archived_at, task_uuid) < (coalesce($4::timestamptz, 'infinity'), coalesce($5::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
order by archived_at desc, task_uuid desc
limit $6
