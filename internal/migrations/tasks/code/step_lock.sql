create or replace function postrider.step_lock(p_step_uuid uuid, p_what text) returns postrider.tasker_workflow_steps
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_task uuid;
    v_step postrider.tasker_workflow_steps;
begin
    -- Which task a step belongs to never changes, so it may be asked before the lock.
    select s.task_uuid into v_task from postrider.tasker_workflow_steps s where s.workflow_step_uuid = p_step_uuid;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no step %s', coalesce(p_step_uuid::text, 'null')),
            hint = 'Its task may have been archived.';
    end if;
    perform postrider.task_lock(v_task, p_what);
    select s.* into v_step from postrider.tasker_workflow_steps s where s.workflow_step_uuid = p_step_uuid;
    return v_step;
end $$;
comment on function postrider.step_lock(uuid, text) is 'Internal. Takes the row lock of a step''s task as task_lock does, and returns the step as it is then. P0002 for an unknown step.';
revoke all on function postrider.step_lock(uuid, text) from public;
