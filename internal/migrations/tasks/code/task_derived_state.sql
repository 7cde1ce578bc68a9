create or replace function postrider.task_derived_state(p_task_uuid uuid) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    with step as (
        select s.status, s.retry_count >= s.max_retries as spent,
               s.status = 'pending' and s.dependencies <@ coalesce(d.done, '{}') as ready
          from postrider.tasker_workflow_steps s
          cross join (select array_agg(o.step_name) as done from postrider.tasker_workflow_steps o
                       where o.task_uuid = p_task_uuid and o.status = any ((select postrider.task_done_statuses(p_task_uuid))::text[])) d
         where s.task_uuid = p_task_uuid
    )
    select case
        when count(*) = 0 then null
        when bool_or(status in ('enqueued', 'in_progress')) then 'steps_in_process'
        when bool_and(status in ('complete', 'resolved_manually', 'cancelled'))
            then case when bool_or(status <> 'cancelled') then 'complete' else 'cancelled' end
        when bool_or(ready) then 'enqueuing_steps'
        when bool_or(status = 'waiting_for_retry') then 'waiting_for_retry'
        when bool_or(status = 'error' and spent) then 'error'
        when bool_or(status = 'error') then 'blocked_by_failures'
        else 'waiting_for_dependencies'
        end
    from step
$$;
comment on function postrider.task_derived_state(uuid) is
'Internal. The state that a task''s steps ask for, in the words of the built-in machine; null for a task without steps. Where every step is done or cancelled, that is complete if one was done, and cancelled if none was.';
revoke all on function postrider.task_derived_state(uuid) from public;
