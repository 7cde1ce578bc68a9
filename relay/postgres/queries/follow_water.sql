-- Raises the marks of shards, which the transaction has locked, to the ids up to which it has settled all.
update postrider.outbox_shard s set low_water = d.id
from unnest($1::smallint[], $2::bigint[]) as d(shard, id) where s.shard = d.shard and s.low_water < d.id
