create or replace function postrider.evaluate_task(p_task_uuid uuid) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_before text;
    v_after  text;
begin
    perform postrider.task_lock(p_task_uuid, null);
    v_before := (select k.state from postrider.tasker_tasks k where k.task_uuid = p_task_uuid);
    v_after := postrider.task_follow_steps(p_task_uuid, false);
    if v_after <> v_before then
        perform postrider.access_owe('{task.evaluate}', 'task', array[p_task_uuid::text], p_service => true);
    end if;
    return v_after;
end $$;
comment on function postrider.evaluate_task(uuid) is
'Takes a task where its steps lead it and returns the state it has then. Changes of steps do this by themselves; who takes a new task calls it to begin. A task in a failed state stays there until an operator acts on its steps. P0002 for an unknown task.';
revoke all on function postrider.evaluate_task(uuid) from public;
