select e.id, coalesce(e.max_attempts, postrider.outbox_task_attempts(e.task_uuid), 0)::int, e.task_uuid from unnest($1::bigint[]) as d(id)
    join postrider.outbox_event e on e.id = any (array[d.id])
