-- Tables of other schemas than ours and PostgreSQL's, with the names of their columns.
select n.nspname::text, c.relname::text, c.oid,
       array(select a.attname::text from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and n.nspname !~ '^(pg_|information_schema$|postrider$)'
order by 1, 2
