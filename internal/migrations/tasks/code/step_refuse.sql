create or replace function postrider.step_refuse(p_step postrider.tasker_workflow_steps, p_what text, p_from text, p_hint text default null) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    raise exception using errcode = '55000',
        message = format('postrider: cannot %s step %s (%s): it is %s, which must be %s', p_what, p_step.step_name, p_step.workflow_step_uuid, p_step.status, p_from),
        hint = coalesce(p_hint, format('It is of task %s.', p_step.task_uuid));
end $$;
comment on function postrider.step_refuse(postrider.tasker_workflow_steps, text, text, text) is 'Internal. Raises 55000: what cannot be done with a step, its status, and in which it could.';
revoke all on function postrider.step_refuse(postrider.tasker_workflow_steps, text, text, text) from public;
