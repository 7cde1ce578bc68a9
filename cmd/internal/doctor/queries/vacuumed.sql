select s.relname::text, s.n_dead_tup,
       coalesce(extract(epoch from now() - greatest(s.last_autovacuum, s.last_vacuum)), -1)::float8
from pg_catalog.pg_stat_all_tables s
where s.schemaname = 'postrider' and s.n_dead_tup > $1
order by s.n_dead_tup desc
