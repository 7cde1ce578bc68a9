select r.step_transition_uuid, r.task_uuid, r.workflow_step_uuid, s.step_name, r.from_status, r.to_status, r.metadata, r.created_at,
       null::timestamptz as archived_at
from postrider.tasker_workflow_step_transitions r
join postrider.tasker_workflow_steps s using (workflow_step_uuid)
where r.task_uuid = $1::uuid
order by r.created_at, s.position, r.step_transition_uuid
