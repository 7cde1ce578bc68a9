create or replace function postrider.task_lock(p_task_uuid uuid, p_what text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t record;
begin
    -- The lock alone first: a join over the state would lose the row if the previous holder of the lock changed the state.
    perform from postrider.tasker_tasks k where k.task_uuid = p_task_uuid for update;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null')),
            hint = 'It may have been archived: postrider task show.';
    end if;
    select k.state, s.kind into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_machine_states s on s.state_machine_id = n.state_machine_id and s.state = k.state
     where k.task_uuid = p_task_uuid;
    if p_what is not null and t.kind = 'terminal' then
        raise exception using errcode = '55000',
            message = format('postrider: cannot %s: task %s is %s, which is an end', p_what, p_task_uuid, t.state),
            hint = 'Its steps can no longer change; create a new task.';
    end if;
    if p_what in ('enqueue', 'start') and t.kind = 'failed' then
        raise exception using errcode = '55000',
            message = format('postrider: cannot %s a step: task %s is %s and waits for a person', p_what, p_task_uuid, t.state),
            hint = 'Act on its steps first: postrider task step retry.';
    end if;
end $$;
comment on function postrider.task_lock(uuid, text) is
'Internal. Takes the row lock of a task. With p_what (enqueue, start, complete …) it refuses with 55000 if the state of the task does not allow that for its steps. P0002 for an unknown task.';
revoke all on function postrider.task_lock(uuid, text) from public;
