-- The newest, from $7 back to $8, of each template and state that is asked for, which stand together in an index, merged: what it costs
-- does not grow with the tasks that are not asked for.
with asked as materialized (
    select n.named_task_uuid, s.state
    from postrider.tasker_named_tasks n
    join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
    join postrider.tasker_state_machines m using (state_machine_id)
    join postrider.tasker_machine_states s using (state_machine_id)
    where ($1::text is null or ns.name = $1) and ($2::text is null or n.name = $2) and ($3::text is null or n.version = $3)
      and (s.state = $4::text or $4 is null and s.state is distinct from m.archived_state)
), newest as materialized (
    select t.task_uuid
    from asked a
    cross join lateral (
        select k.task_uuid from postrider.tasker_tasks k
        where k.named_task_uuid = a.named_task_uuid and k.state = a.state and k.task_uuid between $8::uuid and $7::uuid
        order by k.task_uuid desc limit $5::bigint + $6::bigint) t
    order by t.task_uuid desc
    limit $5 offset $6
)
select k.task_uuid, k.named_task_uuid, ns.name, n.name, n.version, k.state, s.kind, k.live, k.state_entered_at, k.sort_key, k.priority, k.retry_count,
       k.context, k.metadata, k.idempotency_key, k.error_reason, k.stale_flagged_at, k.stay_from, k.resumed_at, k.dead_letters,
       k.created_at, k.updated_at, k.completed_at, null::text as final_state, null::timestamptz as archived_at
from newest
join postrider.tasker_tasks k using (task_uuid)
join postrider.tasker_named_tasks n using (named_task_uuid)
join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
join postrider.tasker_machine_states s on s.state_machine_id = n.state_machine_id and s.state = k.state
order by k.task_uuid desc
