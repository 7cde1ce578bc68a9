-- In which groups and with which status the investigations are that a search asks for, and how many are in all.
-- If one of the groups is mixed, it may have others, too.
select c.dlq_group_uuid, c.resolution_status::text, sum(sum(c.entries)) over ()::bigint, bool_or(bool_or(g.mixed)) over ()
from postrider.dlq_count c
join postrider.dlq_group g on g.dlq_group_uuid = c.dlq_group_uuid
where ($1::text = '' or c.resolution_status = nullif($1::text, '')::postrider.dlq_resolution_status)
  and ($2::text = '' or c.dlq_reason = nullif($2::text, '')::postrider.dlq_reason)
  and ($3::text = '' or c.subject_type = $3)
  and ($4::uuid[] is null or c.dlq_group_uuid = any ($4))
  and ($5::text = '' or g.topic = $5 or g.mixed)
  and ($6::text = '' or g.error_code = $6 or g.mixed)
group by c.dlq_group_uuid, c.resolution_status
limit $7
