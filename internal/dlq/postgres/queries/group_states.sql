-- How many groups are in each state, without the empty ones that were merged into others, and how many of their investigations
-- are pending.
-- Of the sources $1, where these are not null.
select now.state, count(*), sum(g.pending)::bigint
from postrider.dlq_group g
cross join lateral (select postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending) as state) now
where g.total > 0 and ($1::text[] is null or g.source = any ($1))
  and (g.entries > 0 or not exists (select from postrider.dlq_fingerprint f where f.fingerprint = g.fingerprint))
group by now.state
