-- Raises the marks of shards, which the transaction has locked, to the ids up to which it has settled all. Beside a
-- long snapshot not over fewer than there are dead rows: see lock_lagging_shards.
update postrider.outbox_shard s set low_water = d.id
from unnest($1::smallint[], $2::bigint[]) as d(shard, id)
where s.shard = d.shard and s.low_water + pg_catalog.pg_stat_get_dead_tuples('postrider.outbox_shard'::regclass) < d.id
