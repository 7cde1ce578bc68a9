-- What a table is like, what this login may do with it, and how often its rows were inserted, deleted and counted.
select c.relkind::text, c.relpersistence::text, c.relreplident::text,
       exists (select from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisprimary),
       pg_catalog.pg_get_userbyid(c.relowner)::text, pg_catalog.pg_has_role(c.relowner, 'usage'), pg_catalog.has_table_privilege(c.oid, 'select'),
       coalesce(s.n_tup_ins, 0), coalesce(s.n_tup_del, 0), coalesce(s.n_live_tup, 0),
       array(select t.tgname::text from pg_catalog.pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal order by 1)
from pg_catalog.pg_class c left join pg_catalog.pg_stat_user_tables s on s.relid = c.oid
where c.oid = $1
