create or replace function postrider.step_waits_for(p_step postrider.tasker_workflow_steps) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(array_agg(d.name order by d.name), '{}')
      from unnest(p_step.dependencies) d(name)
     where not exists (select from postrider.tasker_workflow_steps o
                        where o.task_uuid = p_step.task_uuid and o.step_name = d.name
                          and o.status = any ((select postrider.task_done_statuses(p_step.task_uuid))::text[]))
$$;
comment on function postrider.step_waits_for(postrider.tasker_workflow_steps) is 'Internal. The names of the steps that a step depends on and that are not done.';
revoke all on function postrider.step_waits_for(postrider.tasker_workflow_steps) from public;
