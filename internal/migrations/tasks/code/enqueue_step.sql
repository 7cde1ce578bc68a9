create or replace function postrider.enqueue_step(p_step_uuid uuid) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_step postrider.tasker_workflow_steps := postrider.step_lock(p_step_uuid, 'enqueue');
begin
    -- A step that was enqueued by hand has a time until it is handed out.
    if v_step.status not in ('pending', 'waiting_for_retry') and (v_step.status <> 'enqueued' or v_step.next_retry_at is null) then
        perform postrider.step_refuse(v_step, 'enqueue', 'pending or waiting_for_retry');
    end if;
    perform postrider.step_due(v_step, 'enqueue');
    v_step.next_retry_at := null;
    perform postrider.step_set(v_step, 'enqueued', null);
    perform postrider.task_follow_steps(v_step.task_uuid, true, jsonb_build_object('reason', format('step %s is enqueued', v_step.step_name)));
    return 'enqueued';
end $$;
comment on function postrider.enqueue_step(uuid) is
'For a program that hands out work: a step whose turn it is was given to a worker''s queue. Returns enqueued. 55000 says why it is not its turn; P0002 for an unknown step.';
revoke all on function postrider.enqueue_step(uuid) from public;
