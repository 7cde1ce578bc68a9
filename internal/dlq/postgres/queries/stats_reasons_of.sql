-- stats_reasons of the sources $1.
select c.dlq_reason::text, c.total, c.pending, c.manually_resolved, c.permanently_failed, c.cancelled,
       (select e.dlq_timestamp from postrider.dlq_entry e where e.dlq_reason = c.dlq_reason and e.source = any ($1) order by e.dlq_reason, e.dlq_timestamp limit 1),
       (select e.dlq_timestamp from postrider.dlq_entry e where e.dlq_reason = c.dlq_reason and e.source = any ($1) order by e.dlq_reason desc, e.dlq_timestamp desc limit 1)
from (
    select c.dlq_reason, sum(c.entries)::bigint as total,
           coalesce(sum(c.entries) filter (where c.resolution_status = 'pending'), 0)::bigint as pending,
           coalesce(sum(c.entries) filter (where c.resolution_status = 'manually_resolved'), 0)::bigint as manually_resolved,
           coalesce(sum(c.entries) filter (where c.resolution_status = 'permanently_failed'), 0)::bigint as permanently_failed,
           coalesce(sum(c.entries) filter (where c.resolution_status = 'cancelled'), 0)::bigint as cancelled
    from postrider.dlq_count c
    join postrider.dlq_group g on g.dlq_group_uuid = c.dlq_group_uuid
    where g.source = any ($1::text[])
    group by c.dlq_reason having sum(c.entries) > 0) c
order by c.dlq_reason
