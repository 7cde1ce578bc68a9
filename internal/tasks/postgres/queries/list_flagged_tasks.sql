-- The newest flagged tasks, from $7 back to $8. There are few; an index has them alone.
select k.task_uuid, k.named_task_uuid, ns.name, n.name, n.version, k.state, s.kind, k.live, k.state_entered_at, k.sort_key, k.priority, k.retry_count,
       k.context, k.metadata, k.idempotency_key, k.error_reason, k.stale_flagged_at, k.stay_from, k.resumed_at, k.dead_letters,
       k.created_at, k.updated_at, k.completed_at, null::text as final_state, null::timestamptz as archived_at
from postrider.tasker_tasks k
join postrider.tasker_named_tasks n using (named_task_uuid)
join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
join postrider.tasker_state_machines m using (state_machine_id)
join postrider.tasker_machine_states s on s.state_machine_id = n.state_machine_id and s.state = k.state
where k.live and k.stale_flagged_at is not null and k.task_uuid between $8::uuid and $7::uuid
  and ($1::text is null or ns.name = $1) and ($2::text is null or n.name = $2) and ($3::text is null or n.version = $3)
  and ($4::text is null or k.state = $4)
order by k.task_uuid desc
limit $5::bigint offset $6::bigint
