-- How many investigations there are by the counters.
select coalesce(sum(c.entries), 0)::bigint
from postrider.dlq_count c
where ($1::text = '' or c.resolution_status = nullif($1::text, '')::postrider.dlq_resolution_status)
