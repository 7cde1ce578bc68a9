delete from postrider.outbox_exception x using unnest($1::bigint[]) as d(id) where x.id = any (array[d.id])
