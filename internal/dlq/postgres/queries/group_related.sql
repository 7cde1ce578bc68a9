-- Other groups of its source that are not resolved, of the same error code or topic, the newest first.
select o.dlq_group_uuid
from postrider.dlq_group g
join postrider.dlq_group o on o.dlq_group_uuid <> g.dlq_group_uuid and o.source = g.source and o.pending > 0 and (o.error_code = g.error_code or o.topic = g.topic)
where g.dlq_group_uuid = $1
order by o.last_seen_at desc limit $2
