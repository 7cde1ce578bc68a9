-- A task came to a state, unless something newer is known of it.
insert into task_state as known (task_uuid, namespace_name, task_name, version, state, sort_key, changed_at)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (task_uuid) do update
set version = excluded.version, state = excluded.state, sort_key = excluded.sort_key, changed_at = excluded.changed_at, stale_since = null
where known.sort_key < excluded.sort_key
