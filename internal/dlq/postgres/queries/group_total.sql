-- How many groups there are, without the empty ones that were merged into others.
select count(*) from postrider.dlq_group g
where g.total > 0
  and (g.entries > 0 or not exists (select from postrider.dlq_fingerprint f where f.fingerprint = g.fingerprint))
  and ($1::text = '' or postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending) = $1)
  and ($2::text = '' or g.topic = $2)
  and ($3::text = '' or g.error_code = $3)
  and ($4::text = '' or g.assignee = $4)
  and ($5::text = '' or g.title ilike $5)
