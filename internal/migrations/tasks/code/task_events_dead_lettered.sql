create or replace function postrider.task_events_dead_lettered(p_events jsonb) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
set enable_seqscan = off set jit = off as $$
declare
    v_events jsonb[] := array(select e.event from jsonb_array_elements(p_events) with ordinality e(event, place) order by e.place);
    v_keys   integer[] := '{}';
    v_event  jsonb;
    v_failed text;
    v_locked boolean := false;
    v_moved  integer := 0;
begin
    -- All together, because savepoints cost: every session that looks at rows of a transaction with more than 64 of them pays.
    begin
        -- How far each task had come when the event was written, as other sessions see it before any lock is asked for: a retry
        -- that is not committed yet is then later, whichever ends first. If the task was retried since, another event takes
        -- the place of this one.
        foreach v_event in array v_events loop
            v_keys := array_append(v_keys, (
                select coalesce(max(r.sort_key), 0) from jsonb_to_record(v_event) as e(task_uuid uuid, created_at timestamptz)
                join postrider.tasker_task_transitions r on r.task_uuid = e.task_uuid and r.created_at <= e.created_at));
        end loop;
        for i in 1 .. cardinality(v_events) loop
            v_moved := v_moved + postrider.task_event_given_up(v_events[i], v_keys[i])::integer;
        end loop;
        return v_moved;
    exception
        when lock_not_available then
            v_locked := true;
            v_failed := left(sqlerrm, 1000);
        when others then -- whatever is wrong with a task, the events' way to their dead letters is free
            null;
    end;
    -- One of them failed: now each by itself. Once a lock of another session on a table lasts that long, the rest is for later.
    v_moved := 0;
    for i in 1 .. cardinality(v_events) loop
        if not v_locked then
            begin
                v_moved := v_moved + postrider.task_event_given_up(v_events[i], v_keys[i])::integer;
                continue;
            exception
                when lock_not_available then
                    v_locked := true;
                    v_failed := left(sqlerrm, 1000);
                when others then
                    v_failed := left(sqlerrm, 1000);
            end;
        end if;
        perform postrider.task_event_note(v_events[i], v_keys[i], 'waiting', v_failed);
    end loop;
    return v_moved;
end $$;
comment on function postrider.task_events_dead_lettered(jsonb) is
'Moves the tasks of events that were just given up, in the transaction that gave them up. p_events is an array of objects with event_id, episode (how many times it was given up), task_uuid, topic, attempts, error_class, error_code, error_message (of the last failure) and created_at. A task that cannot be moved now is noted in tasker_undelivered_events. It waits for no task, and a task keeps no event from being given up. Returns how many tasks were moved.';
revoke all on function postrider.task_events_dead_lettered(jsonb) from public;
