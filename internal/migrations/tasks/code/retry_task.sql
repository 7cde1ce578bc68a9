create or replace function postrider.retry_task(p_task_uuid uuid, p_actor text default null) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t       record;
    v_event uuid;
begin
    perform postrider.task_check_who(p_actor);
    select k.state, m.initial_state, m.retryable_states, m.name as machine into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid
       for update of k;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null')),
            hint = 'An archived task cannot be retried: create a new one.';
    end if;
    if not t.state = any (t.retryable_states) then
        raise exception using errcode = '22023',
            message = format('postrider: task %s is %s and cannot be retried: machine %s retries from %s', p_task_uuid, t.state, t.machine,
                             coalesce(nullif(array_to_string(t.retryable_states, ', '), ''), 'no state')),
            hint = case when exists (select from postrider.tasker_workflow_steps s where s.task_uuid = p_task_uuid)
                        then 'To go on with single steps: postrider task step.' else 'Its history says how it came there: postrider task show.' end;
    end if;
    perform postrider.access_owe('{task.retry}', 'task', array[p_task_uuid::text]);
    perform postrider.steps_set(p_task_uuid, array(
        select s.workflow_step_uuid from postrider.tasker_workflow_steps s
         where s.task_uuid = p_task_uuid and s.status not in ('complete', 'resolved_manually')
           and (s.status <> 'pending' or s.retry_count > 0 or s.last_error is not null)), 'pending', true,
        jsonb_build_object('action', 'retry_task', 'actor', p_actor, 'reason', 'the task is retried'));
    update postrider.tasker_tasks k set retry_count = k.retry_count + 1 where k.task_uuid = p_task_uuid;
    perform postrider.task_move(p_task_uuid, t.initial_state, jsonb_build_object('actor', p_actor, 'reason', 'retry'));
    v_event := postrider.task_start_event(p_task_uuid);
    if v_event is null then
        v_event := postrider.task_event(p_task_uuid, 'retry_queued', (
            select jsonb_build_object('from_state', t.state, 'to_state', k.state, 'sort_key', k.sort_key, 'retry_count', k.retry_count,
                                      'actor', p_actor, 'reason', 'retry', 'metadata', null)
              from postrider.tasker_tasks k where k.task_uuid = p_task_uuid));
    end if;
    perform postrider.task_supersede_letters(p_task_uuid, p_actor);
    return v_event;
end $$;
comment on function postrider.retry_task(uuid, text) is
'Returns a task to the beginning, from a retryable state of its machine: its error is cleared, steps that are not done are pending again with all their retries, and the template''s start_event is written again or, where it has none, the event postrider.task.retry_queued.v1; all in the caller''s transaction. Its pending investigation, and that of an event whose loss moved it, is closed (manually_resolved). Returns the id of that event. 22023 names the state and the states that can be retried, or says that p_actor has more than 256 bytes; P0002 for an unknown task.';
revoke all on function postrider.retry_task(uuid, text) from public;
