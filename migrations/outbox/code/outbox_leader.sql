create or replace view postrider.outbox_leader as
-- "Post", 2: the session of a relay that leads has this advisory lock.
select exists (select from pg_catalog.pg_locks l
               where l.locktype = 'advisory' and l.classid = 1349481332 and l.objid = 2 and l.objsubid = 2 and l.granted
                 and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())) as leads,
       r.worker, r.at
from (select) one
left join lateral (select r.worker, r.at from postrider.outbox_receipt r where r.note = 'began' order by r.number desc limit 1) r on true;
comment on view postrider.outbox_leader is
'Whether a relay leads the outbox now, which relay led last, and since when it did. One row.';
