create or replace function postrider.get_ready_steps(p_task_uuid uuid) returns setof postrider.tasker_workflow_steps
language sql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
    select s.*
      from postrider.tasker_workflow_steps s
     where s.task_uuid = p_task_uuid
       and exists (select from postrider.tasker_tasks k where k.task_uuid = p_task_uuid and k.live)
       and (s.status = 'waiting_for_retry' and s.next_retry_at <= (select clock_timestamp())
            or s.status = 'pending' and not exists (
                select from unnest(s.dependencies) d(name)
                 where not exists (select from postrider.tasker_workflow_steps o where o.task_uuid = p_task_uuid and o.step_name = d.name
                                                                    and o.status in ('complete', 'resolved_manually'))))
     order by s.position
$$;
comment on function postrider.get_ready_steps(uuid) is
'The steps of a task whose turn it is: pending with all they depend on done, or waiting for a retry whose time has come; in the template''s order. None of a task that has ended or failed.';
revoke all on function postrider.get_ready_steps(uuid) from public;
