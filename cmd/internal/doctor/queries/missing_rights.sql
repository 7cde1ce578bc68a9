select g.role, concat_ws(' ', g.privilege, case when g.columns <> '' then '(' || g.columns || ')' end, 'on', g.name)
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) with ordinality g(role, kind, name, privilege, columns, place)
where not coalesce(case
    when g.kind = 'schema' then has_schema_privilege(g.name, g.privilege)
    when g.kind = 'function' then has_function_privilege(to_regprocedure(g.name), g.privilege)
    when g.kind = 'sequence' then has_sequence_privilege(to_regclass(g.name), g.privilege)
    when g.kind = 'all tables' then not exists (
        select from pg_catalog.pg_class c
        where c.relnamespace = to_regnamespace(g.name) and c.relkind in ('r', 'v', 'm', 'p') and not has_table_privilege(c.oid, g.privilege))
    when g.columns <> '' then has_table_privilege(to_regclass(g.name), g.privilege)
        or (select bool_and(has_column_privilege(to_regclass(g.name), n.name, g.privilege)) from unnest(string_to_array(g.columns, ', ')) n(name))
    else has_table_privilege(to_regclass(g.name), g.privilege)
end, false)
order by g.place
