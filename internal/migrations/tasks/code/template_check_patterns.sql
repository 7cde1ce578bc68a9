create or replace function postrider.template_check_patterns(p_schema jsonb, p_whose text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_path    text;
    v_pattern text;
begin
    for v_path, v_pattern in
        with recursive schema(node, path) as (
            select p_schema, 'input_schema'
            union all
            select c.node, c.path
            from schema s, lateral (
                select v.value as node, s.path || '.' || v.key as path
                from jsonb_each(case jsonb_typeof(s.node) when 'object' then s.node else '{}' end) v
                where v.key in ('items', 'additionalProperties', 'not')
                union all
                select v.value, s.path || '.properties.' || v.key
                from jsonb_each(case jsonb_typeof(s.node->'properties') when 'object' then s.node->'properties' else '{}' end) v
                union all
                select v.value, s.path || '.' || k.key || '[' || v.position - 1 || ']'
                from unnest(array['allOf', 'anyOf', 'oneOf']) k(key),
                     jsonb_array_elements(case jsonb_typeof(s.node->k.key) when 'array' then s.node->k.key else '[]' end) with ordinality v(value, position)
            ) c
        )
        select s.path || '.pattern', s.node->>'pattern' from schema s where jsonb_typeof(s.node->'pattern') = 'string'
    loop
        begin
            perform '' ~ v_pattern;
        exception when invalid_regular_expression then
            perform postrider.template_refuse(format('%s of %s is no regular expression of PostgreSQL: %s', v_path, p_whose, sqlerrm));
        end;
    end loop;
end $$;
comment on function postrider.template_check_patterns(jsonb, text) is
'Internal. Refuses an input_schema with a pattern that PostgreSQL does not understand, with error 22023.';
revoke all on function postrider.template_check_patterns(jsonb, text) from public;
