create or replace view postrider.outbox_leader as
-- The session that leads has the advisory lock with the nonce of its term, in share mode; pg_locks shows it in two halves.
select exists (select from pg_catalog.pg_locks l
               where l.locktype = 'advisory' and l.classid = ((r.nonce >> 32) & 4294967295)::oid and l.objid = (r.nonce & 4294967295)::oid
                 and l.objsubid = 1 and l.mode = 'ShareLock' and l.granted
                 and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())) as leads,
       r.worker, r.at
from (select) one
left join lateral (select r.worker, r.at, r.nonce from postrider.outbox_receipt r where r.note = 'began' order by r.number desc limit 1) r on true;
comment on view postrider.outbox_leader is
'Which relay led the outbox last, since when, and whether it leads now. One row.';
