-- Pending investigations by reason, from their counters.
select c.dlq_reason::text, sum(c.entries)::bigint
from postrider.dlq_count c where c.resolution_status = 'pending' group by c.dlq_reason
