-- Asked after the task is locked, and not joined with it: the state may have changed while its lock was awaited.
create or replace function postrider.task_state_kind(p_state_machine_id integer, p_state text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select s.kind from postrider.tasker_machine_states s where s.state_machine_id = p_state_machine_id and s.state = p_state
$$;
comment on function postrider.task_state_kind(integer, text) is 'Internal. The kind of a machine''s state; null if the machine does not have that state.';
revoke all on function postrider.task_state_kind(integer, text) from public;
