select step_transition_uuid, task_uuid, workflow_step_uuid, from_status, to_status, metadata, created_at, archived_at
from postrider.tasker_workflow_step_transitions_archive
where task_uuid = $1
order by created_at, step_transition_uuid
