-- A prepared transaction goes on under another name after a restart of the server, so any such one counts.
select not exists (
    select from pg_catalog.pg_locks l
    where l.locktype = 'relation' and l.relation = 'postrider.outbox_event'::regclass
      and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
      and (l.virtualtransaction = any ($1::text[])
           or l.virtualtransaction like '-1/%' and l.mode <> 'AccessShareLock'))
