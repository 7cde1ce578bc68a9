create or replace function postrider.create_task(p_namespace text, p_name text, p_context jsonb default '{}', p_version text default null,
    p_priority integer default 0, p_steps jsonb default null, p_idempotency_key text default null, p_task_uuid uuid default null, p_actor text default null)
returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_template uuid := postrider.task_template(p_namespace, p_name, p_version);
    v_task     uuid := coalesce(p_task_uuid, postrider.uuid_generate_v7());
    v_known    uuid;
    v_context  jsonb := coalesce(p_context, '{}');
    v_steps    jsonb;
    v_state    text;
    v_now      timestamptz := clock_timestamp();
    v_cycle    text[];
    v_meta     jsonb := jsonb_strip_nulls(jsonb_build_object('actor', p_actor, 'reason', 'created'));
    n          record;
begin
    perform postrider.task_check_who(p_actor);
    -- apply_template changes no machine while a task of it comes into being.
    perform from postrider.tasker_named_tasks t where t.named_task_uuid = v_template for key share;
    select t.configuration, m.initial_state into n
      from postrider.tasker_named_tasks t join postrider.tasker_state_machines m using (state_machine_id)
     where t.named_task_uuid = v_template;
    if p_idempotency_key is not null then
        if octet_length(p_idempotency_key) not between 1 and 512 then
            raise exception using errcode = '22023',
                message = format('postrider: idempotency_key is %s bytes, it must be 1 to 512', octet_length(p_idempotency_key)),
                hint = 'Leave it out, or give the hash of what is longer.';
        end if;
        -- A second caller waits here for the first, and a key holds for all versions of a template.
        perform pg_advisory_xact_lock(hashtextextended(format('postrider task %s/%s %s', p_namespace, p_name, p_idempotency_key), 0));
        select k.task_uuid into v_known
          from postrider.tasker_task_namespaces ns
          join postrider.tasker_named_tasks t using (task_namespace_uuid)
          join postrider.tasker_tasks k using (named_task_uuid)
         where ns.name = p_namespace and t.name = p_name and k.idempotency_key = p_idempotency_key
        union all
        select a.task_uuid from postrider.tasker_tasks_archive a
         where a.namespace_name = p_namespace and a.task_name = p_name and a.idempotency_key = p_idempotency_key;
        if found then
            return v_known;
        end if;
    end if;
    perform postrider.task_check_json(v_context, 'the context');
    perform postrider.task_check_json(p_steps, 'one of the steps');
    perform postrider.task_check_input(n.configuration->'input_schema', v_context);
    v_steps := coalesce(p_steps, n.configuration->'steps', '[]');
    v_steps := case when jsonb_typeof(v_steps) = 'null' then '[]' else v_steps end;
    perform postrider.task_check_steps(v_steps);

    insert into postrider.tasker_tasks (task_uuid, named_task_uuid, state, live, state_entered_at, sort_key, context, priority,
                                        idempotency_key, ready_at, created_at, updated_at)
    values (v_task, v_template, n.initial_state, true, v_now, 1, v_context, coalesce(p_priority, 0), p_idempotency_key,
            postrider.task_ready_at(v_task, 'initial'), v_now, v_now)
        on conflict do nothing;
    if not found then
        raise exception using errcode = '23505', message = format('postrider: there is a task %s already', v_task),
            hint = 'Leave p_task_uuid out to get a new one; to create a task only once, give an idempotency key.';
    end if;
    perform postrider.access_owe('{task.create}', 'task', array[v_task::text], p_service => true);
    insert into postrider.tasker_task_transitions (task_uuid, to_state, metadata, sort_key, most_recent, created_at)
    values (v_task, n.initial_state, v_meta, 1, true, v_now);
    with step as (
        insert into postrider.tasker_workflow_steps (task_uuid, step_name, handler_name, position, dependencies, max_retries,
            retry_base_seconds, retry_max_seconds, inputs, state_entered_at, created_at, updated_at)
        select v_task, s.step->>'name',
               case jsonb_typeof(s.step->'handler') when 'string' then s.step->>'handler'
                   when 'object' then coalesce(s.step->'handler'->>'name', s.step->'handler'->>'callable', s.step->'handler'->>'class') end,
               s.n - 1, array(select jsonb_array_elements_text(postrider.step_dependencies(s.step))),
               coalesce((s.step->>'max_retries')::integer, 3), coalesce((s.step->>'retry_base_seconds')::double precision, 1),
               coalesce((s.step->>'retry_max_seconds')::double precision, greatest(60, (s.step->>'retry_base_seconds')::double precision)),
               s.step->'inputs', v_now, v_now, v_now
          from jsonb_array_elements(v_steps) with ordinality s(step, n)
        returning workflow_step_uuid
    )
    insert into postrider.tasker_workflow_step_transitions (task_uuid, workflow_step_uuid, to_status, metadata, created_at)
    select v_task, step.workflow_step_uuid, 'pending', v_meta, v_now from step;
    perform postrider.task_event(v_task, 'created', jsonb_build_object('from_state', null, 'to_state', n.initial_state, 'sort_key', 1,
        'occurred_at', v_now, 'actor', p_actor, 'reason', 'created', 'metadata', v_meta, 'priority', coalesce(p_priority, 0),
        'steps', (select coalesce(jsonb_agg(jsonb_build_object('workflow_step_uuid', s.workflow_step_uuid, 'step_name', s.step_name) order by s.position), '[]')
                    from postrider.tasker_workflow_steps s where s.task_uuid = v_task)));

    v_cycle := postrider.task_cycle(v_steps);
    if cardinality(v_cycle) > 0 then
        perform postrider.task_end_cycle(v_task, v_cycle);
    else
        perform postrider.task_start_event(v_task);
    end if;
    return v_task;
end $$;
comment on function postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text) is
'Creates a task of a template, with its steps and the event that says so, in the caller''s transaction, and returns its uuid. p_context must fit the template''s input_schema (22023 names the path). p_version null takes the newest. p_steps, an array in the form of a template''s steps, takes the place of the template''s; steps in a cycle send the task to its failed state with a dead letter. p_idempotency_key: a second call for the template returns the first task, live or archived. p_actor has 256 bytes at most, p_context and p_steps 2 MiB as text. P0002 for an unknown template.';
revoke all on function postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text) from public;
