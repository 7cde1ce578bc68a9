create or replace function postrider.get_ready_steps(p_task_uuid uuid) returns setof postrider.tasker_workflow_steps
language sql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
    select s.*
      from postrider.tasker_workflow_steps s
     where s.task_uuid = p_task_uuid
       and exists (select from postrider.tasker_tasks k where k.task_uuid = p_task_uuid and k.live)
       and (s.status in ('waiting_for_retry', 'enqueued') and s.next_retry_at <= (select clock_timestamp())
            or s.status = 'pending' and not exists (
                select from unnest(s.dependencies) d(name)
                 where not exists (select from postrider.tasker_workflow_steps o where o.task_uuid = p_task_uuid and o.step_name = d.name
                                                                    and o.status = any ((select postrider.task_done_statuses(p_task_uuid))::text[]))))
     order by s.position
$$;
comment on function postrider.get_ready_steps(uuid) is
'The steps of a task whose turn it is: pending with all they depend on done, waiting for a retry whose time has come, or enqueued by hand and not handed out yet; in the template''s order. None of a task that has ended or failed.';
revoke all on function postrider.get_ready_steps(uuid) from public;
