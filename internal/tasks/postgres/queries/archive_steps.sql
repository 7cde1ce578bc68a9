-- All steps of a task, or the one that is named.
select workflow_step_uuid, task_uuid, step_name, handler_name, position, dependencies, status, retry_count, max_retries, inputs, results,
       last_error, state_entered_at, created_at, updated_at, archived_at
from postrider.tasker_workflow_steps_archive
where task_uuid = $1 and workflow_step_uuid = coalesce($2, workflow_step_uuid)
order by position, workflow_step_uuid
