-- All steps of a task, or the one that is named.
select workflow_step_uuid, task_uuid, step_name, handler_name, position, dependencies, status, retry_count, max_retries,
       retry_base_seconds, retry_max_seconds, next_retry_at, inputs, results, last_error, fencing_number, state_entered_at, created_at, updated_at, archived_at
from postrider.tasker_workflow_steps_archive
where task_uuid = $1 and workflow_step_uuid = coalesce($2, workflow_step_uuid)
order by position, workflow_step_uuid
