select c.resolution_status::text, sum(c.entries)::bigint from postrider.dlq_count c where c.dlq_group_uuid = $1 group by 1
