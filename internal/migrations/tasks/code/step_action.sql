create or replace function postrider.step_action(p_task_uuid uuid, p_step_uuid uuid, p_action text, p_notes text default null, p_actor text default null, p_results jsonb default null)
returns text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_step   postrider.tasker_workflow_steps;
    v_before text;
    v_status text;
    v_taken  boolean;
    v_recover boolean := true;
    v_why    jsonb;
begin
    if p_action is null or p_action not in ('retry', 'reset_retry_count', 'cancel', 'complete_manually') then
        raise exception using errcode = '22023',
            message = format('postrider: there is no step action %s; there are retry, reset_retry_count, cancel, complete_manually', coalesce(p_action, 'null'));
    end if;
    perform postrider.task_check_who(p_actor, p_notes);
    perform postrider.task_lock(p_task_uuid, null); -- whether the task has ended is asked below: a step that is not there is not found
    select s.* into v_step from postrider.tasker_workflow_steps s where s.workflow_step_uuid = p_step_uuid and s.task_uuid = p_task_uuid;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: task %s has no step %s', p_task_uuid, coalesce(p_step_uuid::text, 'null')),
            hint = 'Its steps: postrider task steps.';
    end if;
    if p_action = 'cancel' and v_step.status = 'cancelled' then
        return v_step.status; -- it may have been cancelled with the step that it depends on
    end if;
    perform postrider.task_lock(p_task_uuid, p_action || ' a step');
    v_before := v_step.status;
    v_why := jsonb_strip_nulls(jsonb_build_object('action', p_action, 'actor', p_actor, 'notes', p_notes, 'reason', coalesce(p_notes, p_action)));
    -- If the task has failed, the worker of a step is taken for dead. Retry and reset_retry_count take the step from it.
    v_taken := v_step.status in ('enqueued', 'in_progress') and exists (
        select from postrider.tasker_tasks k
          join postrider.tasker_named_tasks n using (named_task_uuid)
          join postrider.tasker_machine_states st on st.state_machine_id = n.state_machine_id and st.state = k.state
         where k.task_uuid = p_task_uuid and st.kind = 'failed');
    case p_action
    when 'retry' then
        if not v_taken and v_step.status not in ('pending', 'waiting_for_retry', 'error', 'cancelled') then
            perform postrider.step_refuse(v_step, 'retry', 'pending, waiting_for_retry, error or cancelled',
                case when v_step.status in ('enqueued', 'in_progress') then format(
                    'A worker has it, and task %s has not failed. Once the task has failed, retry takes the step from that worker; to give up its work now, cancel the step and retry it.', p_task_uuid) end);
        end if;
        v_status := 'enqueued';
        -- get_ready_steps hands it out: no queue has it.
        v_step.next_retry_at := clock_timestamp();
        v_step.fencing_number := v_step.fencing_number + 1;
    when 'reset_retry_count' then
        if v_step.status in ('complete', 'resolved_manually', 'cancelled') then
            perform postrider.step_refuse(v_step, 'reset the retries of', 'pending, enqueued, in_progress, waiting_for_retry or error');
        end if;
        v_status := case when v_taken or v_step.status in ('waiting_for_retry', 'error') then 'pending' else v_step.status end;
        v_step.retry_count := 0;
        if v_status = 'pending' then
            v_step.next_retry_at := null;
            v_step.fencing_number := v_step.fencing_number + 1;
        end if;
    when 'cancel' then
        if v_step.status in ('complete', 'resolved_manually') then
            perform postrider.step_refuse(v_step, 'cancel', 'pending, enqueued, in_progress, waiting_for_retry or error');
        end if;
        v_status := 'cancelled';
        v_step.next_retry_at := null;
    when 'complete_manually' then
        if v_step.status in ('complete', 'resolved_manually') then
            perform postrider.step_refuse(v_step, 'complete by hand', 'not done yet');
        end if;
        v_status := 'resolved_manually';
        perform postrider.task_check_json(p_results, 'the result of a step');
        v_step.results := coalesce(p_results, v_step.results);
        v_step.next_retry_at := null;
    end case;
    perform postrider.access_owe(array['step.' || p_action], 'task', array[p_task_uuid::text]);
    perform postrider.step_set(v_step, v_status, v_why);
    if v_before = 'cancelled' then
        perform postrider.task_revive_dependants(v_step, v_why);
    end if;
    -- To cancel a step of a failed task is no progress: the other steps do not begin again by it. Once nothing is left, the
    -- task ends.
    if p_action = 'cancel' then
        perform postrider.task_cancel_dependants(p_task_uuid, v_why);
        v_recover := not exists (select from postrider.tasker_workflow_steps s
                                  where s.task_uuid = p_task_uuid and s.status not in ('complete', 'resolved_manually', 'cancelled'));
    end if;
    perform postrider.task_follow_steps(p_task_uuid, v_recover,
        jsonb_strip_nulls(jsonb_build_object('reason', format('step %s: %s', v_step.step_name, p_action), 'actor', p_actor, 'notes', p_notes)));
    return v_status;
end $$;
comment on function postrider.step_action(uuid, uuid, text, text, text, jsonb) is
'For people: retry (give it to a worker now, whatever it waits for: get_ready_steps hands it out), reset_retry_count (as if it had never failed; a failed one is pending again), cancel (what depends on it follows the template''s cancelled_steps; a cancelled step stays as it is), complete_manually (it was done by hand, with results if there are any). Where the task has failed, retry and reset_retry_count take a step from the worker that has it: its fencing_number grows, and complete_step and fail_step refuse the old one. The task follows: out of a failed state too when it can go on (after a cancel: when nothing is left to do), and to its end when every step is done or cancelled. Returns the step''s new status; 55000 where its status or the task''s state forbids it, 22023 for an unknown action, an actor of more than 256 bytes and notes of more than 4096; P0002 for an unknown task or step.';
revoke all on function postrider.step_action(uuid, uuid, text, text, text, jsonb) from public;
