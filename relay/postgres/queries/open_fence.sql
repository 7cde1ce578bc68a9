-- The transactions that may hold drawn ids uncommitted: an insert locks the table before it draws an id,
-- and keeps the lock to its end. And which server it is.
select coalesce(array_agg(distinct l.virtualtransaction), '{}'),
       (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint, coalesce(pg_catalog.pg_relation_filenode('postrider.outbox_shard'), 0)::bigint
from pg_catalog.pg_locks l
where l.locktype = 'relation' and l.relation = 'postrider.outbox_event'::regclass
  and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
  and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
