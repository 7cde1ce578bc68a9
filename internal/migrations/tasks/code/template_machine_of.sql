create or replace function postrider.template_machine_of(p_machine jsonb) returns jsonb
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'states', (select jsonb_object_agg(s.value->>'name', s.value->>'kind') from jsonb_array_elements(p_machine->'states') s(value)),
        'transitions', (select coalesce(jsonb_agg(jsonb_build_array(t.from_state, t.to_state) order by t.from_state, t.to_state), '[]')
                        from (select distinct f.value->>'from' as from_state, d.name as to_state
                              from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) f(value), jsonb_array_elements_text(f.value->'to') d(name)) t),
        'roles', jsonb_build_array(p_machine->'roles'->>'complete', p_machine->'roles'->>'failed', p_machine->'roles'->>'cancelled',
                                   p_machine->'roles'->>'dead_letter', p_machine->'roles'->>'archived'),
        'retryable', (select coalesce(jsonb_agg(r.state order by r.state), '[]') from jsonb_array_elements_text(coalesce(p_machine->'retryable', '[]')) r(state)))
$$;
comment on function postrider.template_machine_of(jsonb) is 'Internal. What template_machine returns once this machine is stored; null for null.';
revoke all on function postrider.template_machine_of(jsonb) from public;
