-- Connections that are reserved for superusers are not ours to take.
select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
       (select count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend' or backend_type is null and usename is not null),
       (select d.datconnlimit from pg_catalog.pg_database d where d.datname = current_database()),
       (select r.rolconnlimit from pg_catalog.pg_roles r where r.rolname = current_user)
