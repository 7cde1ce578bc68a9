-- The transactions that may still commit an id up to the newest, which the statement before this one has read: an insert
-- locks the table before it draws an id, and keeps the lock to its end. The oldest transaction id of each is its own, the others are
-- its subtransactions'; not the smallest, because ids begin anew.
select l.virtualtransaction, coalesce((array_agg(x.transactionid order by age(x.transactionid) desc))[1]::text::bigint, 0),
    l.virtualtransaction like '-1/%'
from pg_catalog.pg_locks l
left join pg_catalog.pg_locks x on x.locktype = 'transactionid' and x.virtualtransaction = l.virtualtransaction and x.mode = 'ExclusiveLock'
where l.locktype = 'relation' and l.relation = 'postrider.outbox_event'::regclass
  and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
  and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
group by l.virtualtransaction
