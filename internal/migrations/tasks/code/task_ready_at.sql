create or replace function postrider.task_ready_at(p_task_uuid uuid, p_kind text) returns timestamptz
language plpgsql volatile set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    -- Long ago. The present time of a clock that is ahead would hide the task when that clock is put right.
    v_now  constant timestamptz := '2000-01-01 00:00:00+00';
    v_done text[];
begin
    if p_kind = 'initial' then
        return v_now;
    elsif p_kind not in ('active', 'waiting') then
        return null;
    end if;
    v_done := postrider.task_done_statuses(p_task_uuid);
    return (select min(case when s.status = 'waiting_for_retry' then s.next_retry_at
                            when s.status = 'enqueued' or s.dependencies <@ coalesce(d.done, '{}') then v_now end)
              from postrider.tasker_workflow_steps s
             cross join (select array_agg(o.step_name) as done from postrider.tasker_workflow_steps o
                          where o.task_uuid = p_task_uuid and o.status = any (v_done)) d
             where s.task_uuid = p_task_uuid
               and (s.status in ('pending', 'waiting_for_retry') or s.status = 'enqueued' and s.next_retry_at is not null));
end $$;
comment on function postrider.task_ready_at(uuid, text) is
'Internal. What tasker_tasks.ready_at must be for a task in a state of this kind, by its steps as they are: 2000-01-01 where there is something to do now.';
revoke all on function postrider.task_ready_at(uuid, text) from public;
