select has_database_privilege(current_database(), 'create'),
       exists (select from pg_catalog.pg_namespace where nspname = 'postrider')
