-- stats_day of the sources $1.
select (select coalesce(sum(h.opened), 0) from postrider.dlq_hour h
        join postrider.dlq_group g on g.dlq_group_uuid = h.dlq_group_uuid
        where h.hour > now() - interval '24 hours' and g.source = any ($1::text[]))::bigint
     + (select count(*) from postrider.dlq_entry e
        where e.created_at >= now() - interval '24 hours'
          and e.created_at < date_trunc('hour', now() - interval '24 hours', 'UTC') + interval '1 hour' and e.source = any ($1::text[]))
