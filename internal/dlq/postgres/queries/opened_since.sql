-- At most $2 of the oldest are counted: a burst must not make the look long. The others are counted from where it ends.
select date_trunc('minute', o.created_at), o.source, count(*), max(o.created_at)
from (select e.created_at, e.source from postrider.dlq_entry e where e.created_at > $1 order by e.created_at, e.dlq_entry_uuid limit $2) o
group by 1, 2 order by 1, 2
