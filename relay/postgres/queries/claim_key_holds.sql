-- The holds of the keys $2 of the topics $1 that have parked events in the locked shards. The terms are those of the
-- unique index.
select h.hold_id, h.scope, h.topic, h.key, coalesce(h.partition, 0), coalesce(h.partitions, 0), h.cause,
       (extract(epoch from clock_timestamp() - h.held_at) * 1000000)::bigint, h.probes, h.draining, hs.shard, hs.returned_through
from unnest($1::text[], $2::bytea[]) as k (topic, key)
cross join lateral (
    select h.* from postrider.outbox_hold h
    where h.topic = k.topic and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256(k.key)
      and coalesce(h.partition, -1) = -1 and coalesce(h.partitions, -1) = -1
    limit 1
) h
join postrider.outbox_hold_shard hs on hs.hold_id = h.hold_id and hs.shard = any (current_setting('postrider.claim')::smallint[])
