create or replace function postrider.transition_task_state_atomic(p_task_uuid uuid, p_from_state text, p_to_state text, p_metadata jsonb default null)
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t record;
begin
    select k.state, n.state_machine_id into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
     where k.task_uuid = p_task_uuid
       for update of k;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null')),
            hint = 'It may have been archived: postrider task show.';
    end if;
    if jsonb_typeof(p_metadata) <> 'object' then
        raise exception using errcode = '22023', message = format('postrider: metadata of a transition is a JSON %s, it must be an object', jsonb_typeof(p_metadata)),
            hint = 'Put it under a key: {"reason": "…"}.';
    end if;
    perform postrider.task_check_json(p_metadata, 'metadata of a transition');
    if not exists (select from postrider.tasker_machine_transitions a
                   where a.state_machine_id = t.state_machine_id and a.from_state = p_from_state and a.to_state = p_to_state) then
        raise exception using errcode = '22023',
            message = format('postrider: task %s cannot go from %s to %s: %s', p_task_uuid, coalesce(p_from_state, 'null'),
                             coalesce(p_to_state, 'null'), postrider.task_machine_allows(t.state_machine_id, p_from_state)),
            hint = format('The task is in %s.', t.state);
    end if;
    if t.state <> p_from_state then
        return false;
    end if;
    perform postrider.access_owe('{task.transition}', 'task', array[p_task_uuid::text], p_service => true);
    perform postrider.task_move(p_task_uuid, p_to_state, p_metadata);
    return true;
end $$;
comment on function postrider.transition_task_state_atomic(uuid, text, text, jsonb) is
'Moves a task from one state to another if it is in the first and its template''s machine allows it; writes the history and the lifecycle event in the same transaction. True if it did; false if the task is not in p_from_state (any more), and nothing is changed. 22023 names both states and the allowed ones; P0002 for an unknown task. p_metadata: actor, reason, and other data that the caller wants to keep, 2 MiB as text at most; the history has all of it, and an event that would be larger than 900 kB leaves it out and says so (truncated, sizes).';
revoke all on function postrider.transition_task_state_atomic(uuid, text, text, jsonb) from public;
