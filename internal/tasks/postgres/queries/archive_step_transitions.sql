select r.step_transition_uuid, r.task_uuid, r.workflow_step_uuid, s.step_name, r.from_status, r.to_status, r.metadata, r.created_at, r.archived_at
from postrider.tasker_workflow_step_transitions_archive r
join postrider.tasker_workflow_steps_archive s on s.task_uuid = r.task_uuid and s.workflow_step_uuid = r.workflow_step_uuid
where r.task_uuid = $1
order by r.created_at, s.position, r.step_transition_uuid
