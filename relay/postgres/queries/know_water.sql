-- How far each shard is known to hold nothing pending, at most up to $1, and of which epoch that is; 0 for an epoch that
-- has ended. Nothing is locked: whoever makes an older event pending, and is not seen here, ends the epoch. The
-- snapshot is taken after all transactions ended that could hold ids up to $1. It looks from where is known on (see
-- lock_shards; $2 and $3 are its $3 and $4). Of which server it is, the place in its log behind all transactions that it
-- has seen, and that of its last checkpoint.
select array_agg(k.epoch order by k.shard), array_agg(k.mark order by k.shard),
       (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint, coalesce(pg_catalog.pg_relation_filenode('postrider.outbox_shard'), 0)::bigint,
       pg_catalog.pg_current_wal_insert_lsn()::text, (select c.checkpoint_lsn::text from pg_catalog.pg_control_checkpoint() c)
from (select s.shard, greatest(s.epoch, 0) as epoch,
             case when s.epoch > 0 then greatest(m.mark, least($1::bigint, coalesce(
                 (select e.id - 1 from postrider.outbox_event e
                  where e.shard = s.shard and e.state = 'pending' and e.id > m.mark and e.id + 0 > m.mark order by e.id + 0 limit 1), $1::bigint)))
             else 0 end as mark
      from postrider.outbox_shard s
      cross join lateral (select case when s.epoch = ($2::bigint[])[s.shard + 1] then greatest(s.low_water, ($3::bigint[])[s.shard + 1]) else s.low_water end as mark) m) k
