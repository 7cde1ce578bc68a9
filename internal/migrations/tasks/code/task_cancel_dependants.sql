create or replace function postrider.task_cancel_dependants(p_task_uuid uuid, p_metadata jsonb default null) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_lost uuid[];
begin
    if not exists (select from postrider.tasker_workflow_steps s where s.task_uuid = p_task_uuid and s.status = 'cancelled')
       or exists (select from postrider.tasker_tasks k join postrider.tasker_named_tasks n using (named_task_uuid)
                   where k.task_uuid = p_task_uuid and n.configuration->>'cancelled_steps' in ('skip', 'wait')) then
        return;
    end if;
    -- Only pending steps: a step that was given to a worker in spite of its dependencies goes on.
    with recursive step as materialized (
        select s.workflow_step_uuid, s.step_name, s.status, s.dependencies from postrider.tasker_workflow_steps s where s.task_uuid = p_task_uuid
    ), edge as materialized (
        select d.name as needs, s.step_name, s.workflow_step_uuid from step s cross join unnest(s.dependencies) d(name) where s.status = 'pending'
    ), lost as (
        select s.step_name, null::uuid as workflow_step_uuid from step s where s.status = 'cancelled'
        union
        select e.step_name, e.workflow_step_uuid from lost l join edge e on e.needs = l.step_name
    )
    select array_agg(distinct l.workflow_step_uuid) into v_lost from lost l where l.workflow_step_uuid is not null;
    if cardinality(v_lost) > 0 then
        perform postrider.steps_set(p_task_uuid, v_lost, 'cancelled', false, jsonb_strip_nulls(jsonb_build_object(
            'action', 'cancel_dependant', 'actor', p_metadata->>'actor', 'reason', 'a step that it depends on was cancelled')));
    end if;
end $$;
comment on function postrider.task_cancel_dependants(uuid, jsonb) is
'Internal. Cancels the pending steps of a task that depend on a cancelled step, over any number of steps between, unless the template''s cancelled_steps is skip or wait. The caller holds the task''s row lock.';
revoke all on function postrider.task_cancel_dependants(uuid, jsonb) from public;
