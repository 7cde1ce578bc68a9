create or replace function postrider.outbox_tell_tasks(p_ids bigint[]) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    events jsonb;
begin
    if to_regprocedure('postrider.task_events_dead_lettered(jsonb)') is null then
        return 0; -- there are no tasks in this database
    end if;
    select jsonb_agg(jsonb_build_object('event_id', e.event_id, 'episode', e.episode, 'task_uuid', e.task_uuid, 'topic', e.topic,
               'attempts', e.attempts, 'error_class', e.last_error_class, 'error_code', e.last_error_code, 'error_message', e.last_error,
               'created_at', e.created_at) order by d.place)
    into events
    from unnest(p_ids) with ordinality as d(id, place)
    join postrider.outbox_exception e on e.id = any (array[d.id])
    where e.task_uuid is not null and e.state = 'exhausted';
    return case when events is not null then postrider.task_events_dead_lettered(events) else 0 end;
end $$;
comment on function postrider.outbox_tell_tasks(bigint[]) is
'Tells tasks which of these events were just given up, in the transaction that gave them up, and returns how many tasks moved for it. Events that were not given up, or that are of no task, are passed over. It waits for no task, and a task keeps no event from being given up.';
revoke all on function postrider.outbox_tell_tasks(bigint[]) from public;
