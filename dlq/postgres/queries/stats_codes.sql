-- Open investigations by error code, the most first.
select coalesce(g.error_code, ''), sum(g.pending)::bigint
from postrider.dlq_group g where g.pending > 0
group by 1 order by 2 desc, 1
