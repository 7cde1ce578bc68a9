-- Tries the lock, for this transaction, and says who has it. Trying in a loop, and not waiting inside
-- pg_advisory_xact_lock, keeps the connection usable when the caller's patience ends, and holds no
-- snapshot meanwhile, which another migrator's DDL could have to wait for.
select pg_try_advisory_xact_lock($1),
       coalesce((
           select format('process %s of PostgreSQL (application %s, user %s, connected since %s)',
                         a.pid, quote_literal(a.application_name), a.usename,
                         to_char(a.backend_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
           from pg_locks l
           join pg_stat_activity a using (pid)
           where l.locktype = 'advisory' and l.granted and l.objsubid = 1
             and l.database = (select oid from pg_database where datname = current_database())
             and l.classid::bigint = $1 >> 32 and l.objid::bigint = $1 & 4294967295
           limit 1
       ), 'another session');
