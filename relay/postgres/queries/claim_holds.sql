-- The holds that bear on the locked shards: those with parked events there, and those of every topic and
-- partition.
select h.hold_id, h.scope, h.topic, h.key, coalesce(h.partition, 0), coalesce(h.partitions, 0), h.cause,
       (extract(epoch from clock_timestamp() - h.held_at) * 1000000)::bigint, h.probes, h.draining, hs.shard, hs.returned_through
from postrider.outbox_hold_shard hs
join postrider.outbox_hold h using (hold_id)
where hs.shard = any (current_setting('postrider.claim')::smallint[])
union all
select h.hold_id, h.scope, h.topic, h.key, coalesce(h.partition, 0), coalesce(h.partitions, 0), h.cause,
       (extract(epoch from clock_timestamp() - h.held_at) * 1000000)::bigint, h.probes, h.draining, null, null
from postrider.outbox_hold h where h.scope in ('topic', 'partition')
