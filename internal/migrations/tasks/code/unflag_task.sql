create or replace function postrider.unflag_task(p_task_uuid uuid, p_actor text default null, p_notes text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_now     timestamptz := clock_timestamp();
    v_flagged timestamptz;
begin
    perform postrider.task_check_who(p_actor, p_notes);
    perform postrider.task_lock(p_task_uuid, null);
    select k.stale_flagged_at into v_flagged from postrider.tasker_tasks k where k.task_uuid = p_task_uuid and k.live;
    if v_flagged is null then
        return false;
    end if;
    perform postrider.access_owe('{task.unflag}', 'task', array[p_task_uuid::text]);
    update postrider.tasker_tasks k
       set stale_flagged_at = null, stale_rule = '', stale_until = null, stay_from = v_now, resumed_at = v_now, updated_at = v_now
     where k.task_uuid = p_task_uuid;
    perform postrider.task_event(p_task_uuid, 'unflagged', jsonb_build_object(
        'occurred_at', v_now, 'flagged_at', v_flagged, 'actor', p_actor, 'reason', coalesce(p_notes, 'unflagged'), 'metadata', null));
    return true;
end $$;
comment on function postrider.unflag_task(uuid, text, text) is
'For people: a task that was found to be stale and left in place may go on. Its flag ends, and its stay and its lifetime count from now, so that get_next_ready_tasks hands it out again; the event postrider.task.unflagged.v1 says so. False if it has no flag, and nothing is changed. 22023 for an actor of more than 256 bytes and notes of more than 4096; P0002 for an unknown task.';
revoke all on function postrider.unflag_task(uuid, text, text) from public;
