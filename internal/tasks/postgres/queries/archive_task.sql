select task_uuid, named_task_uuid, namespace_name, task_name, task_version, state, final_state, state_entered_at, context, priority,
       retry_count, idempotency_key, error_reason, metadata, dead_letters, created_at, updated_at, completed_at, archived_at
from postrider.tasker_tasks_archive
where task_uuid = $1
