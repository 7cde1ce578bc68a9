-- The groups and statuses in which investigations with $7 in their message are likely to be, because what the
-- group is of has it. The ones with the most investigations first. How many these groups have in all, and how many in these statuses.
with likely as materialized (
    select g.dlq_group_uuid, sum(g.entries) over ()::bigint as entries
    from postrider.dlq_group g
    where g.entries > 0 and concat_ws(' | ', g.parts->>'root_cause', g.parts->>'message', g.parts->>'root_frame') ilike $7
      and ($4::uuid[] is null or g.dlq_group_uuid = any ($4))
      and ($5::text = '' or g.topic = $5)
      and ($6::text = '' or g.error_code = $6)
)
select c.dlq_group_uuid, c.resolution_status::text, min(l.entries), sum(sum(c.entries)) over ()::bigint
from likely l
join postrider.dlq_count c on c.dlq_group_uuid = l.dlq_group_uuid
where ($1::text = '' or c.resolution_status = nullif($1::text, '')::postrider.dlq_resolution_status)
  and ($2::text = '' or c.dlq_reason = nullif($2::text, '')::postrider.dlq_reason)
  and ($3::text = '' or c.subject_type = $3)
group by c.dlq_group_uuid, c.resolution_status
order by sum(c.entries) desc
limit $8
