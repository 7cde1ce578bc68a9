-- The newest transitions of the steps of a task before place ($2, $3, $4): moment, position of the step, id. It goes back along an
-- index from moment to moment until there are enough, whatever the statistics say.
with recursive moments(at, transitions) as (
    select $2::timestamptz, 0::bigint
    union all
    select before.at, m.transitions + (select count(*) from postrider.tasker_workflow_step_transitions r where r.task_uuid = $1::uuid and r.created_at = before.at)
    from moments m
    cross join lateral (select max(r.created_at) as at from postrider.tasker_workflow_step_transitions r where r.task_uuid = $1 and r.created_at < m.at) before
    where m.transitions < $5::integer and before.at is not null
)
select r.step_transition_uuid, r.task_uuid, r.workflow_step_uuid, s.step_name, r.from_status, r.to_status, r.metadata, r.created_at, null::timestamptz as archived_at, s.position
from moments m
cross join lateral (select * from postrider.tasker_workflow_step_transitions r where r.task_uuid = $1 and r.created_at = m.at offset 0) r
join postrider.tasker_workflow_steps s using (workflow_step_uuid)
where (r.created_at, s.position, r.step_transition_uuid) < ($2, $3::integer, $4::uuid)
order by r.created_at desc, s.position desc, r.step_transition_uuid desc
limit $5
