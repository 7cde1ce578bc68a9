create or replace function postrider.template_machine(p_state_machine_id integer) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'states', (select jsonb_object_agg(s.state, s.kind) from postrider.tasker_machine_states s where s.state_machine_id = m.state_machine_id),
        'transitions', (select coalesce(jsonb_agg(jsonb_build_array(t.from_state, t.to_state) order by t.from_state, t.to_state), '[]')
                        from postrider.tasker_machine_transitions t where t.state_machine_id = m.state_machine_id),
        'roles', jsonb_build_array(m.complete_state, m.failed_state, m.cancelled_state, m.dead_letter_state, m.archived_state),
        'retryable', (select coalesce(jsonb_agg(r.state order by r.state), '[]') from unnest(m.retryable_states) r(state)))
    from postrider.tasker_state_machines m where m.state_machine_id = p_state_machine_id
$$;
comment on function postrider.template_machine(integer) is
'Internal. A machine in a form that is equal for equal machines, to tell whether one changed.';
revoke all on function postrider.template_machine(integer) from public;
