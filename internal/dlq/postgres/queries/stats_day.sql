-- How many were opened during the last 24 hours: whole hours by their counters, the one that is cut by counting.
select (select coalesce(sum(h.opened), 0) from postrider.dlq_hour h where h.hour > now() - interval '24 hours')::bigint
     + (select count(*) from postrider.dlq_entry e
        where e.created_at >= now() - interval '24 hours'
          and e.created_at < date_trunc('hour', now() - interval '24 hours', 'UTC') + interval '1 hour')
