create or replace function postrider.step_set(p_step postrider.tasker_workflow_steps, p_status text, p_metadata jsonb) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_from     text;
    v_now      timestamptz := clock_timestamp();
    v_progress boolean := p_status in ('in_progress', 'complete', 'resolved_manually');
begin
    select s.status into v_from from postrider.tasker_workflow_steps s where s.workflow_step_uuid = p_step.workflow_step_uuid;
    update postrider.tasker_workflow_steps s
       set status = p_status, retry_count = p_step.retry_count, next_retry_at = p_step.next_retry_at,
           results = p_step.results, last_error = p_step.last_error, fencing_number = p_step.fencing_number,
           state_entered_at = case when s.status = p_status then s.state_entered_at else v_now end, updated_at = v_now
     where s.workflow_step_uuid = p_step.workflow_step_uuid;
    insert into postrider.tasker_workflow_step_transitions (task_uuid, workflow_step_uuid, from_status, to_status, metadata, created_at)
    values (p_step.task_uuid, p_step.workflow_step_uuid, v_from, p_status, p_metadata, v_now);
    perform postrider.task_steps_changed(p_step.task_uuid, v_now, v_progress);
    perform postrider.task_event(p_step.task_uuid, 'step_transitioned', jsonb_build_object(
        'workflow_step_uuid', p_step.workflow_step_uuid, 'step_name', p_step.step_name, 'from_status', v_from, 'to_status', p_status,
        'retry_count', p_step.retry_count, 'occurred_at', v_now,
        'actor', coalesce(p_metadata->>'actor', p_metadata->>'worker'), 'reason', p_metadata->>'reason', 'metadata', p_metadata));
end $$;
comment on function postrider.step_set(postrider.tasker_workflow_steps, text, jsonb) is
'Internal. Puts a step into a status, with retry_count, next_retry_at, results, last_error and fencing_number as in the given row, its history and its event. The caller holds the task''s row lock and decides whether it may.';
revoke all on function postrider.step_set(postrider.tasker_workflow_steps, text, jsonb) from public;
