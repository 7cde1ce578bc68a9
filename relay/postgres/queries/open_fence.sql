-- The transactions that may hold drawn ids uncommitted: an insert locks the table before it draws an id,
-- and keeps the lock to its end.
select coalesce(array_agg(distinct l.virtualtransaction), '{}') from pg_catalog.pg_locks l
where l.locktype = 'relation' and l.relation = 'postrider.outbox_event'::regclass
  and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
  and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
