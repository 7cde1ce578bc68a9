select e.id, coalesce(e.max_attempts, 0)::int, e.task_uuid from unnest($1::bigint[]) as d(id) join postrider.outbox_event e on e.id = any (array[d.id])
