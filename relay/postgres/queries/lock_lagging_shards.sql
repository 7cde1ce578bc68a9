-- Locks the free shards whose mark is more than $2 ids behind $1. Each new mark is a dead row which, beside a long
-- snapshot, every claim walks over as well: so no mark moves over fewer ids than there are dead rows, and where relays
-- know better marks themselves, in an epoch that lasts and not $3, not over fewer than 64 times as many. And which server it is.
select set_config('postrider.claim', coalesce(array_agg(locked.shard)::text, '{}'), true),
       (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint, coalesce(pg_catalog.pg_relation_filenode('postrider.outbox_shard'), 0)::bigint
from (select s.shard from postrider.outbox_shard s
      where s.low_water + greatest($2::bigint, pg_catalog.pg_stat_get_dead_tuples('postrider.outbox_shard'::regclass)
                                               * case when s.epoch > 0 and not $3::bool then 64 else 1 end) < $1::bigint
      order by s.shard for update of s skip locked) locked
