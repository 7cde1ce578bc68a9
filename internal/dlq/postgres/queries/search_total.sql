-- How many investigations there are, by the counters: by the ones of the groups if they have it, which are the fewest rows.
select coalesce(case $1::text
    when '' then (select sum(g.entries) from postrider.dlq_group g)
    when 'pending' then (select sum(g.pending) from postrider.dlq_group g)
    else (select sum(c.entries) from postrider.dlq_count c where (c.resolution_status = nullif($1::text,
        '')::postrider.dlq_resolution_status) is true)
    end, 0)::bigint
