-- Who holds the lock of the leader (see relay/postgres/lead.go), who wrote last that it leads, since when, and how many
-- sessions of relays there are, as far as their names may be seen.
select exists (select from pg_catalog.pg_locks l
               where l.locktype = 'advisory' and l.classid = 1349481332 and l.objid = 2 and l.objsubid = 2 and l.granted
                 and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())),
       coalesce(r.worker, ''), coalesce(extract(epoch from clock_timestamp() - r.at), 0)::float8,
       (select count(*) from pg_catalog.pg_stat_activity a where a.datname = current_database() and a.application_name like 'postrider relay%')
from (select) one
left join lateral (select r.worker, r.at from postrider.outbox_receipt r where r.note = 'began' order by r.number desc limit 1) r on true
