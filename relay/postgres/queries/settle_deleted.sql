-- Joined to unnest: see settle_published.
delete from postrider.outbox_event e using unnest($1::bigint[]) as d(id) where e.id = any (array[d.id])
