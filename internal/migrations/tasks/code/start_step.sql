create or replace function postrider.start_step(p_step_uuid uuid, p_worker text default null) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_step postrider.tasker_workflow_steps := postrider.step_lock(p_step_uuid, 'start');
    v_seen timestamptz;
begin
    if v_step.status not in ('pending', 'enqueued', 'waiting_for_retry') then
        perform postrider.step_refuse(v_step, 'start', 'pending, enqueued or waiting_for_retry',
            -- Named, so that a worker which did not hear the answer knows that it is its own.
            case when v_step.status = 'in_progress' then coalesce((
                select 'Worker ' || (x.metadata->>'worker') || ' has it.' from postrider.tasker_workflow_step_transitions x
                 where x.workflow_step_uuid = p_step_uuid and x.to_status = 'in_progress' order by x.created_at desc, x.step_transition_uuid desc limit 1),
                'Another worker has it.') end);
    end if;
    perform postrider.step_due(v_step, 'start');
    v_step.next_retry_at := null;
    v_step.fencing_number := v_step.fencing_number + 1;
    perform postrider.step_set(v_step, 'in_progress', jsonb_strip_nulls(jsonb_build_object('worker', p_worker)));
    perform postrider.task_follow_steps(v_step.task_uuid, true, jsonb_strip_nulls(jsonb_build_object(
        'reason', format('step %s is in progress', v_step.step_name), 'worker', p_worker)));
    if p_worker is not null then
        select w.last_heartbeat_at into v_seen
          from postrider.tasker_tasks k
          join postrider.tasker_named_tasks n using (named_task_uuid)
          join postrider.tasker_workers w using (task_namespace_uuid)
         where k.task_uuid = v_step.task_uuid and w.worker = p_worker;
        -- Seldom enough that steps of one worker do not wait for each other here.
        if v_seen is null or v_seen < clock_timestamp() - interval '10 seconds' then
            perform postrider.worker_heartbeat(ns.name, p_worker)
               from postrider.tasker_tasks k
               join postrider.tasker_named_tasks n using (named_task_uuid)
               join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
              where k.task_uuid = v_step.task_uuid;
        end if;
    end if;
    return v_step.fencing_number;
end $$;
comment on function postrider.start_step(uuid, text) is
'For workers: takes a step whose turn it is. Only one succeeds; 55000 says why another cannot. p_worker counts as a heartbeat. Returns the fencing number of this start: a worker that gives it to complete_step or fail_step is refused there once the step was taken from it.';
revoke all on function postrider.start_step(uuid, text) from public;
