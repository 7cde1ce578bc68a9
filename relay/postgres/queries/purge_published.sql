-- Joined to unnest: see settle_published.
delete from postrider.outbox_event e using unnest($1::bigint[]) as d(id)
where e.id = any (array[d.id]) and e.state::text = 'published' -- cast, so that only the primary key fits
