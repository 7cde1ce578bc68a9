-- The holds of topics and partitions, which every claim must respect, with the locked shards in which they have parked
-- events.
select h.hold_id, h.scope, h.topic, h.key, coalesce(h.partition, 0), coalesce(h.partitions, 0), h.cause,
       (extract(epoch from clock_timestamp() - h.held_at) * 1000000)::bigint, h.probes, h.draining, hs.shard, hs.returned_through
from postrider.outbox_hold h
left join postrider.outbox_hold_shard hs
    on hs.hold_id = h.hold_id and hs.shard = any (current_setting('postrider.claim')::smallint[])
where h.scope in ('topic', 'partition')
