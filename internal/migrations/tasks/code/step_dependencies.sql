create or replace function postrider.step_dependencies(p_step jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case jsonb_typeof(p_step->'dependencies') when 'array' then p_step->'dependencies' when 'string' then jsonb_build_array(p_step->'dependencies') else '[]' end
        || case jsonb_typeof(p_step->'depends_on_step') when 'array' then p_step->'depends_on_step' when 'string' then jsonb_build_array(p_step->'depends_on_step') else '[]' end
$$;
comment on function postrider.step_dependencies(jsonb) is 'Internal. The names in dependencies and depends_on_step of a step as templates write it; each may be one name or a list.';
revoke all on function postrider.step_dependencies(jsonb) from public;
