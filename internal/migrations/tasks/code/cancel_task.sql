create or replace function postrider.cancel_task(p_task_uuid uuid, p_actor text, p_notes text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t      record;
    v_why  jsonb := jsonb_strip_nulls(jsonb_build_object('action', 'cancel', 'actor', p_actor, 'notes', p_notes, 'reason', coalesce(p_notes, 'cancelled')));
begin
    perform postrider.task_check_who(p_actor, p_notes);
    perform postrider.task_lock(p_task_uuid, null);
    select k.state, s.kind, m.name as machine, m.state_machine_id, m.cancelled_state into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
      join postrider.tasker_machine_states s on s.state_machine_id = m.state_machine_id and s.state = k.state
     where k.task_uuid = p_task_uuid;
    if t.kind = 'terminal' then
        return false;
    end if;
    if t.cancelled_state is null then
        raise exception using errcode = '55000', message = format('postrider: cannot cancel task %s: machine %s has no state for cancelled tasks', p_task_uuid, t.machine),
            hint = 'Move it to an end of its own with postrider task transition, or give the machine of a new version of its template the role cancelled.';
    end if;
    if not exists (select from postrider.tasker_machine_transitions a
                   where a.state_machine_id = t.state_machine_id and a.from_state = t.state and a.to_state = t.cancelled_state) then
        raise exception using errcode = '22023', message = format('postrider: task %s cannot go from %s to %s: %s', p_task_uuid, t.state,
            t.cancelled_state, postrider.task_machine_allows(t.state_machine_id, t.state)),
            hint = 'Move it first to a state from which that is allowed: postrider task transition.';
    end if;
    perform postrider.access_owe('{task.cancel}', 'task', array[p_task_uuid::text], p_service => true);
    perform postrider.steps_set(p_task_uuid, array(
        select s.workflow_step_uuid from postrider.tasker_workflow_steps s
         where s.task_uuid = p_task_uuid and s.status not in ('complete', 'resolved_manually', 'cancelled')), 'cancelled', false,
        -- A task may have thousands of steps: what was said at length its own transition has.
        case when length(p_notes) > 200 then v_why - 'notes' || jsonb_build_object('reason', left(p_notes, 200) || ' …') else v_why end);
    perform postrider.task_move(p_task_uuid, t.cancelled_state, v_why);
    return true;
end $$;
comment on function postrider.cancel_task(uuid, text, text) is
'Cancels a task and its steps that are not done. False if it had ended before, and nothing is changed. 55000 or 22023 if its machine knows no way to a cancelled state, P0002 for an unknown task; 22023, too, for an actor of more than 256 bytes and notes of more than 4096. Where the notes are longer than 200 characters the steps'' history and events have their beginning, the task''s the whole.';
revoke all on function postrider.cancel_task(uuid, text, text) from public;
