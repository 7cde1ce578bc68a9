select exists (select from pg_catalog.pg_extension where extname = 'pg_trgm'),
       exists (select from pg_catalog.pg_available_extensions where name = 'pg_trgm')
