-- A publication: whether it has all tables, sends inserts, updates and deletes, how many tables it has, whether it has table $2
-- by its name or by its schema, and whether this login owns it.
select p.puballtables, p.pubinsert, p.pubupdate or p.pubdelete, pg_catalog.pg_get_userbyid(p.pubowner)::text, pg_catalog.pg_has_role(p.pubowner, 'usage'),
       (select count(*) from pg_catalog.pg_publication_tables t where t.pubname = p.pubname),
       exists (select from pg_catalog.pg_publication_rel r where r.prpubid = p.oid and r.prrelid = $2),
       exists (select from pg_catalog.pg_publication_tables t join pg_catalog.pg_namespace n on n.nspname = t.schemaname
                   join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.tablename
               where t.pubname = p.pubname and (c.oid = $2 or c.oid in (select i.relid from pg_catalog.pg_partition_tree($2) i)))
from pg_catalog.pg_publication p where p.pubname = $1
