-- Whether these transactions have ended, and which server it is.
-- A prepared transaction goes on under another name after a restart of the server, so any such one counts.
select not exists (
    select from pg_catalog.pg_locks l
    where l.locktype = 'relation' and l.relation = 'postrider.outbox_event'::regclass
      and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
      and (l.virtualtransaction = any ($1::text[])
           or l.virtualtransaction like '-1/%' and l.mode <> 'AccessShareLock')),
       (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint, coalesce(pg_catalog.pg_relation_filenode('postrider.outbox_shard'), 0)::bigint
