-- The activity of a session of another role is shown to members of pg_read_all_stats only; that it has a snapshot is shown
-- to all.
select 'session', a.pid::text, coalesce(a.application_name, ''), coalesce(a.usename::text, ''), coalesce(a.state, ''),
       extract(epoch from clock_timestamp() - a.xact_start)::float8
from pg_catalog.pg_stat_activity a
where a.datname = current_database() and a.pid <> pg_backend_pid() and coalesce(a.backend_type, 'client backend') = 'client backend'
  and (a.xact_start is not null or a.backend_xmin is not null or a.backend_xid is not null)
union all
select 'prepared', x.gid, '', x.owner::text, 'prepared', extract(epoch from clock_timestamp() - x.prepared)::float8
from pg_catalog.pg_prepared_xacts x where x.database = current_database()
order by 6 desc nulls last
