create or replace function postrider.step_fence(p_step postrider.tasker_workflow_steps, p_what text, p_fencing_number integer) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    if p_fencing_number <> p_step.fencing_number then
        raise exception using errcode = '55000',
            message = format('postrider: cannot %s step %s (%s): the fencing number %s is of an earlier start, the step is at %s', p_what, p_step.step_name,
                             p_step.workflow_step_uuid, p_fencing_number, p_step.fencing_number),
            hint = 'The step was taken from this worker and is another''s now. Drop the result: it changes nothing.';
    end if;
end $$;
comment on function postrider.step_fence(postrider.tasker_workflow_steps, text, integer) is
'Internal. Raises 55000 for a worker from which a step was taken, by the fencing number that its start_step returned. Null asks nothing.';
revoke all on function postrider.step_fence(postrider.tasker_workflow_steps, text, integer) from public;
