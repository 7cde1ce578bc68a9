-- The tasks behind $8, by their ids, that their machines retry from the state that they are in: of each template and state they
-- stand together in an index, and these are merged.
with asked as materialized (
    select n.named_task_uuid, r.state
    from postrider.tasker_named_tasks n
    join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
    join postrider.tasker_state_machines m using (state_machine_id)
    cross join lateral unnest(m.retryable_states) r(state)
    where ($1::text is null or ns.name = $1) and ($2::text is null or n.name = $2) and ($3::text is null or n.version = $3)
      and ($4::text is null or r.state = $4)
)
select t.task_uuid
from asked a
cross join lateral (
    select k.task_uuid from postrider.tasker_tasks k
    where k.named_task_uuid = a.named_task_uuid and k.state = a.state and k.task_uuid between $6::uuid and $7::uuid and k.task_uuid > $8::uuid
    order by k.task_uuid limit $5::bigint) t
order by t.task_uuid
limit $5
