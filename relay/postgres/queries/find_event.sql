-- The event $1 and the hold on its key, with whether that comes from this event. The caller then locks the
-- shard and asks again.
select e.id, e.shard, e.state::text, e.topic, e.key, h.hold_id, coalesce(h.cause, ''), coalesce(h.draining, false), coalesce(h.event_id = e.event_id, false)
from postrider.outbox_event e
left join postrider.outbox_hold h on h.topic = e.topic and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256(e.key)
    and coalesce(h.partition, -1) = -1 and coalesce(h.partitions, -1) = -1
where e.id = $1
