-- A task that had ended was moved to the archive. Its other events may be gone from the topic already.
insert into task_state as known (task_uuid, namespace_name, task_name, version, state, sort_key, changed_at, archived_at)
values ($1, $2, $3, $4, $5, 0, $6, $6)
on conflict (task_uuid) do update set archived_at = excluded.archived_at where known.archived_at is null
