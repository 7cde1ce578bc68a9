-- The newest tasks past the warning share of a threshold, from $7 back to $8. The function finds them by their age. The
-- filter goes into it: it would read a thousand tasks of each other template, to be thrown away here.
select k.task_uuid, k.named_task_uuid, ns.name, n.name, n.version, k.state, s.kind, k.live, k.state_entered_at, k.sort_key, k.priority, k.retry_count,
       k.context, k.metadata, k.idempotency_key, k.error_reason, k.stale_flagged_at, k.stay_from, k.resumed_at, k.dead_letters,
       k.created_at, k.updated_at, k.completed_at, null::text as final_state, null::timestamptz as archived_at
from (select i.task_uuid
      from postrider.near_stale_task_ids(
          case when coalesce($1, $2, $3) is not null then array(
              select m.named_task_uuid
              from postrider.tasker_named_tasks m join postrider.tasker_task_namespaces o using (task_namespace_uuid)
              where ($1::text is null or o.name = $1) and ($2::text is null or m.name = $2) and ($3::text is null or m.version = $3)) end,
          $4::text) i offset 0) i
cross join lateral (select * from postrider.tasker_tasks t where t.task_uuid = i.task_uuid offset 0) k
join postrider.tasker_named_tasks n using (named_task_uuid)
join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
join postrider.tasker_machine_states s on s.state_machine_id = n.state_machine_id and s.state = k.state
where k.task_uuid between $8::uuid and $7::uuid
order by k.task_uuid desc
limit $5::bigint offset $6::bigint
