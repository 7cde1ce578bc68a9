-- Uuids of version 7 are in the order of time, so this is the newest first by the primary key, from $3 back to $4.
select k.task_uuid, k.named_task_uuid, ns.name, n.name, n.version, k.state, s.kind, k.live, k.state_entered_at, k.sort_key, k.priority, k.retry_count,
       k.context, k.metadata, k.idempotency_key, k.error_reason, k.stale_flagged_at, k.stay_from, k.resumed_at, k.dead_letters,
       k.created_at, k.updated_at, k.completed_at, null::text as final_state, null::timestamptz as archived_at
from postrider.tasker_tasks k
join postrider.tasker_named_tasks n using (named_task_uuid)
join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
join postrider.tasker_state_machines m using (state_machine_id)
join postrider.tasker_machine_states s on s.state_machine_id = n.state_machine_id and s.state = k.state
where k.state is distinct from m.archived_state and k.task_uuid between $4::uuid and $3::uuid
order by k.task_uuid desc
limit $1::integer offset $2::integer
