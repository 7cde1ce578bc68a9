create or replace function postrider.template_builtin() returns integer
language sql stable set search_path = pg_catalog, pg_temp as $$
    select m.state_machine_id from postrider.tasker_state_machines m where m.name = 'workflow'
$$;
comment on function postrider.template_builtin() is 'Internal. The built-in machine.';
revoke all on function postrider.template_builtin() from public;
