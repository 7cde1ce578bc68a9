create or replace function postrider.task_revive_dependants(p_step postrider.tasker_workflow_steps, p_metadata jsonb) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_back uuid[];
begin
    with recursive step as materialized (
        select s.workflow_step_uuid, s.step_name, s.dependencies from postrider.tasker_workflow_steps s
         where s.task_uuid = p_step.task_uuid and s.status = 'cancelled'
    ), edge as materialized (
        select d.name as needs, s.step_name, s.workflow_step_uuid from step s cross join unnest(s.dependencies) d(name)
    ), back as (
        select p_step.step_name as step_name, null::uuid as workflow_step_uuid
        union
        select e.step_name, e.workflow_step_uuid from back b join edge e on e.needs = b.step_name
    )
    select array_agg(distinct b.workflow_step_uuid) into v_back
      from back b
     where b.workflow_step_uuid is not null and 'cancel_dependant' = (
           select x.metadata->>'action' from postrider.tasker_workflow_step_transitions x
            where x.workflow_step_uuid = b.workflow_step_uuid order by x.created_at desc, x.step_transition_uuid desc limit 1);
    if cardinality(v_back) > 0 then
        perform postrider.steps_set(p_step.task_uuid, v_back, 'pending', false, jsonb_strip_nulls(jsonb_build_object(
            'action', 'revive_dependant', 'actor', p_metadata->>'actor', 'reason', format('step %s is tried again', p_step.step_name))));
    end if;
end $$;
comment on function postrider.task_revive_dependants(postrider.tasker_workflow_steps, jsonb) is
'Internal. A step that was cancelled is tried again: the steps that were cancelled because they depend on it are pending again. The caller holds the task''s row lock.';
revoke all on function postrider.task_revive_dependants(postrider.tasker_workflow_steps, jsonb) from public;
