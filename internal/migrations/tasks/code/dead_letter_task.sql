create or replace function postrider.dead_letter_task(p_task_uuid uuid, p_reason text, p_actor text default null) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t         record;
    v_kind    text;
    v_pending uuid;
    v_letter  uuid;
    v_letter_id text;
    v_reason  text := nullif(btrim(p_reason, E' \t\r\n'), '');
begin
    perform postrider.task_check_who(p_actor);
    if v_reason is null or octet_length(v_reason) > 4096 then
        raise exception using errcode = '22023', message = 'postrider: a reason of 1 to 4096 bytes is needed to dead-letter a task by hand',
            hint = 'Say why, to the person who investigates; keep longer text elsewhere and refer to it.';
    end if;
    select k.state, k.sort_key, m.state_machine_id, coalesce(m.dead_letter_state, m.failed_state) as target,
           k.state = any (m.retryable_states) as retryable into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid
       for update of k;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null')),
            hint = 'An archived task cannot be dead-lettered.';
    end if;
    v_letter_id := format('task:%s:%s:manual_dlq', p_task_uuid, t.sort_key);
    v_kind := postrider.task_state_kind(t.state_machine_id, t.state);
    if v_kind = 'terminal' then
        raise exception using errcode = '55000',
            message = format('postrider: task %s has ended, it is %s: there is nothing to dead-letter', p_task_uuid, t.state),
            hint = 'What came of it is in its history: postrider task transitions.';
    end if;
    -- Letters of its events have investigations of their own.
    select l.entry_uuid into v_pending from postrider.tasker_letter l
     where l.task_uuid = p_task_uuid and l.letter_id not like 'event:%' and l.entry_uuid is not null and l.closed_at is null
     limit 1;
    if found then
        raise exception using errcode = '55000',
            message = format('postrider: task %s has a pending investigation already, %s', p_task_uuid, v_pending),
            hint = 'Go on with that one, or close it first.';
    end if;
    -- A letter that is written and not yet recorded becomes an investigation of the task within seconds. A letter by hand in
    -- this stay is handled below.
    if exists (select from postrider.tasker_letter l
                where l.task_uuid = p_task_uuid and l.letter_id not like 'event:%' and l.letter_id <> v_letter_id
                  and l.entry_uuid is null and l.closed_at is null) then
        raise exception using errcode = '55000',
            message = format('postrider: task %s has a dead letter on its way already, which the collector has not recorded yet', p_task_uuid),
            hint = 'Its investigation will be in postrider dlq list. If it does not come, see postrider outbox status and whether a collector runs.';
    end if;
    v_letter := postrider.task_dead_letter(p_task_uuid, 'manual_dlq', t.state, t.sort_key, 'MANUAL_DLQ', v_reason,
                                           jsonb_build_object('actor', p_actor));
    if v_letter is null then
        raise exception using errcode = '55000',
            message = format('postrider: task %s was dead-lettered by hand before, since it is %s', p_task_uuid, t.state),
            hint = case
                when exists (select from postrider.tasker_letter l where l.letter_id = v_letter_id and l.closed_at is null)
                    then 'Its letter is on its way, and will be in postrider dlq list. If it does not come, see postrider outbox status and whether a collector runs.'
                when t.retryable then 'Its investigation was closed. One more can be opened once it has moved: postrider task retry, or an action on one of its steps.'
                else 'Its investigation was closed. One more can be opened once it has moved: postrider task step, or postrider task transition.' end;
    end if;
    perform postrider.access_owe('{task.dead_letter}', 'task', array[p_task_uuid::text]);
    if t.target is not null and t.target <> t.state and v_kind <> 'failed' then
        perform postrider.task_move(p_task_uuid, t.target, jsonb_build_object(
            'actor', p_actor, 'reason', 'manual_dlq', 'error_reason', v_reason,
            'error', jsonb_build_object('category', 'manual_dlq', 'reason', v_reason, 'retry_count', 0)));
    end if;
    return v_letter;
end $$;
comment on function postrider.dead_letter_task(uuid, text, text) is
'Dead-letters a task by hand, with the reason manual_dlq: writes its dead letter, with the task as it was, and moves it to the dead-letter or failed state of its machine unless it failed before. Returns the id of the letter''s event. 55000 for a task that has ended, has a pending investigation or a letter that is on its way to become one, or was dead-lettered by hand since it is in its state; 22023 for a p_actor of more than 256 bytes and a p_reason that has not 1 to 4096; P0002 for an unknown one.';
revoke all on function postrider.dead_letter_task(uuid, text, text) from public;
