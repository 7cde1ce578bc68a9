-- How many groups there are, without the empty ones that were merged into others, and the page of them: each with its place,
-- and no rows of the page beyond its end. Whatever the order, it is by a number: of microseconds, or of investigations. For
-- worst, it is the open investigations, behind what counts more than any number of them.
with fitting as materialized (
    select g.dlq_group_uuid,
           case $6::text when 'worst' then least(g.pending, (1::bigint << 40) - 1) + (1::bigint << 40) *
                             case now.state when 'resolved' then 0 when 'muted' then 1
                                 else 2 + (g.last_seen_at > now() - interval '2 hours')::integer end
                         when 'last_seen_at' then (extract(epoch from g.last_seen_at) * 1000000)::bigint
                         when 'first_seen_at' then (extract(epoch from g.first_seen_at) * 1000000)::bigint
                         when 'pending' then g.pending else g.total end as place
    from postrider.dlq_group g
    cross join lateral (select postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending) as state) now
    where g.total > 0
      and (g.entries > 0 or not exists (select from postrider.dlq_fingerprint f where f.fingerprint = g.fingerprint))
      and ($1::text = '' or now.state = $1)
      and ($2::text = '' or g.topic = $2)
      and ($3::text = '' or g.error_code = $3)
      and ($4::text = '' or g.assignee = $4)
      and ($10::text[] is null or g.source = any ($10))
      and ($5::text = '' or concat_ws(' ', g.title, g.error_code, g.topic, g.parts->>'template') ilike $5)
), page as (
    select f.dlq_group_uuid, f.place from fitting f
    where $7::bigint is null or (f.place, f.dlq_group_uuid) </*way*/ ($7, $8::uuid)
    order by f.place desc/*way*/, f.dlq_group_uuid desc/*way*/
    limit $9
)
select c.n, p.dlq_group_uuid, p.place
from (select count(*) as n from fitting) c
left join page p on true
order by p.place desc/*way*/, p.dlq_group_uuid desc/*way*/
