-- Locks the free shards whose mark is more than $2 ids behind $1. Each new mark is a dead row which, beside a long
-- snapshot, every claim walks over as well: so no mark moves over fewer ids than there are dead rows.
select set_config('postrider.claim', coalesce(array_agg(locked.shard)::text, '{}'), true)
from (select s.shard from postrider.outbox_shard s where s.low_water + greatest($2::bigint, pg_catalog.pg_stat_get_dead_tuples('postrider.outbox_shard'::regclass)) < $1::bigint
      order by s.shard for update of s skip locked) locked
