delete from postrider.outbox_skip_request s using unnest($1::bigint[]) as d(id) where s.id = any (array[d.id])
