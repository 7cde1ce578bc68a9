select e.id, e.key, e.payload from unnest($1::bigint[]) as d(id) join postrider.outbox_event e on e.id = any (array[d.id])
