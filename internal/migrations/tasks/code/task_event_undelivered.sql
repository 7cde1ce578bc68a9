create or replace function postrider.task_event_undelivered(
    p_task_uuid uuid, p_event_id uuid, p_episode integer, p_topic text, p_attempts integer, p_class text, p_code text, p_message text,
    p_sort_key integer, p_since timestamptz default null, out outcome text, out detail text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t       record;
    v_short text;
begin
    select k.state, m.state_machine_id, m.name as machine, m.initial_state, coalesce(m.dead_letter_state, m.failed_state) as target into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid
       for update of k skip locked;
    if not found then
        if exists (select from postrider.tasker_tasks k where k.task_uuid = p_task_uuid) then
            outcome := 'waiting';
            detail := 'another transaction was at work on the task';
        else
            outcome := 'refused';
            detail := 'there is no such task, or it was archived';
        end if;
        return;
    end if;
    if t.target is null then
        outcome := 'refused';
        detail := format('the machine %s has neither a dead-letter state nor a failed one', t.machine);
    elsif t.state = t.target then
        outcome := 'refused';
        detail := format('the task was in %s already', t.state);
    elsif postrider.task_state_kind(t.state_machine_id, t.state) = 'terminal' then
        outcome := 'refused';
        detail := format('the task had ended: it was %s', t.state);
    elsif exists (select from postrider.tasker_task_transitions r
                  where r.task_uuid = p_task_uuid and r.to_state = t.initial_state and r.sort_key > 1 -- the first is no retry
                    and case when p_sort_key is null then r.created_at > p_since else r.sort_key > p_sort_key end) then
        outcome := 'refused';
        detail := 'the task was retried since';
    else
        v_short := case when p_class = 'record' then 'Maximum retries exceeded'
                        when p_code = 'SKIPPED' then 'Given up by an operator'
                        when p_class in ('infrastructure', 'route') then 'Not deliverable for too long'
                        else 'Not deliverable as it is' end;
        perform postrider.task_move(p_task_uuid, t.target, jsonb_build_object(
            'actor', 'postrider', 'reason', 'event_dead_lettered', 'event_id', p_event_id,
            'error_reason', format('An event of this task to %s could not be delivered: %s after %s %s (%s)', p_topic,
                                   lower(left(v_short, 1)) || substr(v_short, 2), p_attempts,
                                   case when p_attempts = 1 then 'attempt' else 'attempts' end, coalesce(p_code, 'no code')),
            'error', jsonb_build_object('category', 'pipeline_failed', 'reason', v_short, 'retry_count', p_attempts,
                                        'topic', p_topic, 'event_id', p_event_id, 'class', p_class, 'code', p_code,
                                        'message', left(p_message, 2000))));
        insert into postrider.tasker_task_counts (kind, state, outcome, tasks) -- the reason that the event's dead letter has
        values ('dead_letter', t.state, postrider.task_event_reason(p_class, p_code), 1);
        outcome := 'moved';
        detail := format('from %s to %s', t.state, t.target);
    end if;
    -- The event's dead letter is why the task is here, or one more reason: a retry of the task closes its investigation, and
    -- the task is not archived before that is closed.
    if outcome = 'moved' or t.state = t.target then
        update postrider.tasker_tasks k set dead_letters = k.dead_letters || format('event:%s:%s', p_event_id, p_episode)
         where k.task_uuid = p_task_uuid;
        insert into postrider.tasker_letter (letter_id, task_uuid) values (format('event:%s:%s', p_event_id, p_episode), p_task_uuid)
            on conflict do nothing;
    end if;
end $$;
comment on function postrider.task_event_undelivered(uuid, uuid, integer, text, integer, text, text, text, integer, timestamptz) is
'Internal. Moves a task whose event was given up to the dead-letter state of its machine, or to its failed state, from whatever state that is no end, with error_reason and metadata.error, and adds the event''s dead letter to the letters of the task, also where it is there already. It waits for no lock. outcome: moved; waiting, another transaction has the task''s row lock; refused, it cannot be moved; detail says why. A task that began anew by a transition after the one with the number p_sort_key (after p_since, where that is null) is left alone.';
revoke all on function postrider.task_event_undelivered(uuid, uuid, integer, text, integer, text, text, text, integer, timestamptz) from public;
