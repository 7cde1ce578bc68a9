select workflow_step_uuid, task_uuid, step_name, handler_name, position, dependencies, status, retry_count, max_retries,
       retry_base_seconds, retry_max_seconds, next_retry_at, inputs, results, last_error, fencing_number, state_entered_at, created_at, updated_at,
       null::timestamptz as archived_at
from postrider.get_ready_steps($1::uuid)
