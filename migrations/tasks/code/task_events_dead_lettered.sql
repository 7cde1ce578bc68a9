create or replace function postrider.task_events_dead_lettered(p_event_ids bigint[]) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
set enable_seqscan = off set jit = off as $$
declare
    v_ids    bigint[] := coalesce(p_event_ids, '{}');
    v_keys   integer[] := '{}';
    v_id     bigint;
    v_failed text;
    v_locked boolean := false;
    v_moved  integer := 0;
begin
    -- All together, for savepoints cost: everybody who looks at rows of a transaction with more than 64 of them pays.
    begin
        -- How far each task has come, as others see it, before any lock is asked for: a retry that is not committed yet is
        -- then later than the giving up, whoever ends first. Of what an operator skips, how far it had come when the event
        -- was written: who retried the task since has seen to it that another takes its place.
        foreach v_id in array v_ids loop
            v_keys := array_append(v_keys, (
                select case when o.last_error_code = 'SKIPPED' then coalesce((
                           select max(r.sort_key) from postrider.tasker_task_transitions r
                            where r.task_uuid = o.task_uuid and r.created_at <= o.created_at), 0)
                       else (select r.sort_key from postrider.tasker_task_transitions r where r.task_uuid = o.task_uuid and r.most_recent) end
                  from postrider.outbox_event o where o.id = v_id and o.task_uuid is not null));
        end loop;
        for i in 1 .. cardinality(v_ids) loop
            v_moved := v_moved + postrider.task_event_given_up(v_ids[i], v_keys[i])::integer;
        end loop;
        return v_moved;
    exception
        when lock_not_available then
            v_locked := true;
            v_failed := left(sqlerrm, 1000);
        when others then -- whatever is wrong with a task, the events' way to their dead letters is free
            null;
    end;
    -- One of them failed: each by itself, and once somebody has locked a table that long, the rest is for later.
    v_moved := 0;
    for i in 1 .. cardinality(v_ids) loop
        if not v_locked then
            begin
                v_moved := v_moved + postrider.task_event_given_up(v_ids[i], v_keys[i])::integer;
                continue;
            exception
                when lock_not_available then
                    v_locked := true;
                    v_failed := left(sqlerrm, 1000);
                when others then
                    v_failed := left(sqlerrm, 1000);
            end;
        end if;
        perform postrider.task_event_note(v_ids[i], v_keys[i], 'waiting', v_failed);
    end loop;
    return v_moved;
end $$;
comment on function postrider.task_events_dead_lettered(bigint[]) is
'Moves the tasks of outbox events that were just given up, in the transaction that gave them up; ids are outbox_event.id, and those of other events are passed over. A task that cannot be moved now is noted in tasker_undelivered_events. It waits for no task, and a task keeps no event from being given up. Returns how many tasks were moved.';
revoke all on function postrider.task_events_dead_lettered(bigint[]) from public;
