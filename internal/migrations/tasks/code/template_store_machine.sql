create or replace function postrider.template_store_machine(p_name text, p_machine jsonb) returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    v_id integer;
begin
    insert into postrider.tasker_state_machines as m
        (name, initial_state, complete_state, failed_state, cancelled_state, dead_letter_state, archived_state, retryable_states)
    select p_name, s.value->>'name', p_machine->'roles'->>'complete', p_machine->'roles'->>'failed', p_machine->'roles'->>'cancelled',
           p_machine->'roles'->>'dead_letter', p_machine->'roles'->>'archived',
           array(select y.name from jsonb_array_elements_text(coalesce(p_machine->'retryable', '[]')) y(name))
    from jsonb_array_elements(p_machine->'states') s(value) where s.value->>'kind' = 'initial'
    on conflict (name) do update set
        initial_state = excluded.initial_state, complete_state = excluded.complete_state, failed_state = excluded.failed_state,
        cancelled_state = excluded.cancelled_state, dead_letter_state = excluded.dead_letter_state,
        archived_state = excluded.archived_state, retryable_states = excluded.retryable_states
    returning m.state_machine_id into v_id;
    delete from postrider.tasker_machine_states where state_machine_id = v_id; -- and with them the transitions
    insert into postrider.tasker_machine_states (state_machine_id, state, kind)
    select v_id, s.value->>'name', s.value->>'kind' from jsonb_array_elements(p_machine->'states') s(value);
    insert into postrider.tasker_machine_transitions (state_machine_id, from_state, to_state)
    select distinct v_id, t.value->>'from', d.name
    from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) t(value), jsonb_array_elements_text(t.value->'to') d(name);
    return v_id;
end $$;
comment on function postrider.template_store_machine(text, jsonb) is
'Internal. Writes a machine, or writes it anew, and returns its id. No task may be in one that changes.';
revoke all on function postrider.template_store_machine(text, jsonb) from public;
