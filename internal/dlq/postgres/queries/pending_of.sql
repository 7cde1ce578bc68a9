-- How many investigations about subjects of the type $1 are pending, of the sources $2, by the counters.
select coalesce(sum(c.entries), 0)::bigint
from postrider.dlq_count c
join postrider.dlq_group g on g.dlq_group_uuid = c.dlq_group_uuid
where c.resolution_status = 'pending' and c.subject_type = $1 and g.source = any ($2::text[])
