-- What a service that runs PostgreSQL for others is known by: its settings, functions, roles and extensions.
select case
           when to_regproc('aurora_version') is not null then 'Aurora'
           when current_setting('rds.extensions', true) is not null then 'Amazon RDS'
           when current_setting('azure.extensions', true) is not null then 'Azure'
           when current_setting('neon.timeline_id', true) is not null then 'Neon'
           when exists (select from pg_roles where rolname = 'supabase_admin') then 'Supabase'
           when exists (select from pg_roles where rolname = 'alloydbsuperuser') then 'AlloyDB'
           when exists (select from pg_extension where extname = 'citus') then 'Citus'
           else '' end
