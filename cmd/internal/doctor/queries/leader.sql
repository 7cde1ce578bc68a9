-- Whether a relay leads, which led last, for how long, and how many sessions of relays there are, as far as their names may
-- be seen.
select l.leads, coalesce(l.worker, ''), coalesce(extract(epoch from clock_timestamp() - l.at), 0)::float8,
       (select count(*) from pg_catalog.pg_stat_activity a where a.datname = current_database() and a.application_name like 'postrider relay%')
from postrider.outbox_leader l
