create or replace function postrider.complete_step(p_step_uuid uuid, p_results jsonb default null, p_fencing_number integer default null) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_step postrider.tasker_workflow_steps;
begin
    select s.* into v_step from postrider.tasker_workflow_steps s where s.workflow_step_uuid = p_step_uuid;
    if v_step.status = 'complete' then
        perform postrider.step_fence(v_step, 'complete', p_fencing_number);
        return 'complete'; -- a worker that did not hear the answer asks again
    end if;
    v_step := postrider.step_lock(p_step_uuid, 'complete a step');
    perform postrider.step_fence(v_step, 'complete', p_fencing_number);
    if v_step.status = 'complete' then
        return 'complete';
    elsif v_step.status not in ('enqueued', 'in_progress') then
        perform postrider.step_refuse(v_step, 'complete', 'enqueued or in_progress');
    end if;
    perform postrider.task_check_json(p_results, 'the result of a step');
    v_step.results := p_results;
    v_step.next_retry_at := null;
    perform postrider.step_set(v_step, 'complete', null);
    perform postrider.task_follow_steps(v_step.task_uuid, true, jsonb_build_object('reason', format('step %s is complete', v_step.step_name)));
    return 'complete';
end $$;
comment on function postrider.complete_step(uuid, jsonb, integer) is
'For workers: a step is done, with its results; the task follows. Returns complete, also when it was complete before, and then changes nothing. p_fencing_number is what start_step returned: if the step was taken from this worker since, the call is refused with 55000; null does not ask. 55000, too, if it was not enqueued or in progress.';
revoke all on function postrider.complete_step(uuid, jsonb, integer) from public;
