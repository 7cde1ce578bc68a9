-- How many investigations there are by the counters, and how many counters that are. The conditions are written so that no
-- index serves them: it would fetch each counter from its page alone, and all counters are on a few.
select coalesce(sum(c.entries), 0)::bigint, count(*)
from postrider.dlq_count c
where ($1::text = '' or (c.resolution_status = nullif($1::text, '')::postrider.dlq_resolution_status) is true)
  and ($2::text = '' or (c.dlq_reason = nullif($2::text, '')::postrider.dlq_reason) is true)
  and ($3::text = '' or (c.subject_type = $3) is true)
