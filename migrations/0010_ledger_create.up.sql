-- Creating tasks, and finding those that somebody should work on.

create function postrider.task_template(p_namespace text, p_name text, p_version text default null) returns uuid
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_id    uuid;
    v_known text;
begin
    select n.named_task_uuid into v_id
      from postrider.tasker_named_tasks n
      join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
     where ns.name = p_namespace and n.name = p_name and (p_version is null or n.version = p_version)
     order by case when n.version ~ '^[0-9]{1,9}(\.[0-9]{1,9}){0,3}$' then string_to_array(n.version, '.')::bigint[] end desc nulls last, n.version desc
     limit 1;
    if v_id is null then
        select string_agg(n.version, ', ' order by n.version) into v_known
          from postrider.tasker_named_tasks n join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
         where ns.name = p_namespace and n.name = p_name;
        raise exception using errcode = 'P0002',
            message = format('postrider: there is no template %s/%s%s', coalesce(p_namespace, 'null'), coalesce(p_name, 'null'), coalesce('@' || p_version, '')),
            hint = coalesce('It has the versions ' || v_known || '.', 'Apply it first: postrider template apply.');
    end if;
    return v_id;
end $$;
comment on function postrider.task_template(text, text, text) is 'Internal. The template of this name and version, the newest by number if p_version is null. P0002 if there is none.';

create function postrider.create_task(p_namespace text, p_name text, p_context jsonb default '{}', p_version text default null,
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
    perform postrider.access_owe(p_service => true);
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
'Creates a task of a template, with its steps and the event that says so, in the caller''s transaction, and returns its uuid. p_context must fit the template''s input_schema (22023 names the path). p_version null takes the newest. p_steps, an array in the form of a template''s steps, takes the place of the template''s; steps in a cycle send the task to its failed state with a dead letter. p_idempotency_key: a second call for the template returns the first task, live or archived. p_actor has 256 bytes at most, p_context and p_steps 2 MiB as text. P0002: no such template.';

create function postrider.task_end_cycle(p_task_uuid uuid, p_cycle text[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t         record;
    v_message text := format('the steps %s depend on each other in a cycle, so none of them can ever begin', array_to_string(p_cycle, ', '));
    v_hop     text;
begin
    -- The cycle is seen as the steps are looked at, as far as the machine has states for that.
    foreach v_hop in array array['initializing', 'waiting_for_dependencies'] loop
        perform postrider.task_move(p_task_uuid, v_hop, jsonb_build_object('reason', v_message))
           from postrider.tasker_tasks k
           join postrider.tasker_named_tasks n using (named_task_uuid)
           join postrider.tasker_machine_transitions a on a.state_machine_id = n.state_machine_id and a.from_state = k.state and a.to_state = v_hop
          where k.task_uuid = p_task_uuid;
    end loop;
    select k.state, k.sort_key, m.failed_state, g.reason_dependency_cycle_detected as letters into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
      join postrider.tasker_settings g on g.only_row
     where k.task_uuid = p_task_uuid;
    if t.failed_state is not null then
        perform postrider.task_move(p_task_uuid, t.failed_state, jsonb_build_object('reason', v_message,
            'error', jsonb_build_object('category', 'fatal', 'reason', 'DEPENDENCY_CYCLE_DETECTED', 'steps', to_jsonb(p_cycle))));
    end if;
    if t.letters then
        perform postrider.task_dead_letter(p_task_uuid, 'dependency_cycle_detected', t.state, t.sort_key, 'DEPENDENCY_CYCLE_DETECTED',
            v_message, jsonb_build_object('steps', to_jsonb(p_cycle)));
    end if;
end $$;
comment on function postrider.task_end_cycle(uuid, text[]) is
'Internal. Sends a new task whose steps form a cycle to its failed state, if its machine has one, with a dead letter unless reason_dependency_cycle_detected is off.';

-- Without settings of its own, so that it is inlined; so every name is written with its schema.
create function postrider.lifecycle_minutes(p_lifecycle jsonb, p_key text) returns integer
language sql immutable parallel safe as $$
    select case when pg_catalog.jsonb_typeof(p_lifecycle operator(pg_catalog.->) p_key) operator(pg_catalog.=) 'number'
                then least(greatest((p_lifecycle operator(pg_catalog.->>) p_key)::pg_catalog.numeric, 0), 2147483647)::pg_catalog.int4 end
$$;
comment on function postrider.lifecycle_minutes(jsonb, text) is
'Internal. A threshold of a lifecycle, in minutes; null where it says nothing, or nothing that is a number.';

create function postrider.get_ready_steps(p_task_uuid uuid) returns setof postrider.tasker_workflow_steps
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

-- Without settings of its own, so that it is inlined; so every name is written with its schema.
create function postrider.task_weight(p_priority integer, p_created_at timestamptz, p_now timestamptz, p_half_life integer) returns double precision
language sql stable parallel safe as $$
    select p_priority operator(pg_catalog.*) pg_catalog.power(0.5::double precision, least(greatest(
        extract(epoch from p_now operator(pg_catalog.-) p_created_at) operator(pg_catalog./) 60 operator(pg_catalog./) p_half_life, 0), 1000)::double precision)
$$;
comment on function postrider.task_weight(integer, timestamptz, timestamptz, integer) is
'Internal. What a priority weighs: halved with every p_half_life minutes since the task was created, a thousand times at most.';

create function postrider.task_candidates(p_now timestamptz, p_namespace text, p_waiting_deps integer, p_waiting_retry integer,
    p_in_process integer, p_lifetime integer, p_half_life integer)
returns table(task_uuid uuid, namespace text, template text, state text, begun boolean, priority integer, weight double precision, created_at timestamptz)
language sql stable
-- Hash joins: the tasks are many, or thought to be few; the states of the templates are few.
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_nestloop = off set enable_mergejoin = off set jit = off as $$
    with bound as materialized (
        select n.named_task_uuid, ns.name as namespace, n.name as template, st.state, st.kind,
               p_now - make_interval(mins => coalesce(
                   postrider.lifecycle_minutes(n.configuration->'lifecycle', 'max_' || st.state || '_minutes'),
                   postrider.lifecycle_minutes(ns.lifecycle, 'max_' || st.state || '_minutes'),
                   case st.state when 'waiting_for_dependencies' then p_waiting_deps
                                 when 'waiting_for_retry' then p_waiting_retry
                                 when 'steps_in_process' then p_in_process
                                 else 1440 end)) as entered_since,
               p_now - make_interval(mins => coalesce(
                   postrider.lifecycle_minutes(n.configuration->'lifecycle', 'max_duration_minutes'),
                   postrider.lifecycle_minutes(ns.lifecycle, 'max_duration_minutes'), p_lifetime)) as created_since
          from postrider.tasker_task_namespaces ns
          join postrider.tasker_named_tasks n using (task_namespace_uuid)
          join postrider.tasker_machine_states st on st.state_machine_id = n.state_machine_id and st.kind in ('initial', 'active', 'waiting')
         where p_namespace is null or ns.name = p_namespace
    ), ready as materialized (
        -- Written so that only tasker_tasks_ready can find them: the other indexes have those that wait, too.
        select k.task_uuid, k.named_task_uuid, k.state, k.priority, k.created_at, coalesce(k.resumed_at, k.created_at) as began_at, k.state_entered_at
          from postrider.tasker_tasks k
         where k.ready_at <= p_now and coalesce(k.live, false) and coalesce(k.stale_flagged_at, 'infinity') = 'infinity'
    )
    select k.task_uuid, b.namespace, b.template, k.state, b.kind <> 'initial', k.priority,
           postrider.task_weight(k.priority, k.created_at, p_now, p_half_life), k.created_at
      from ready k
      join bound b using (named_task_uuid, state)
     where k.state_entered_at >= b.entered_since and k.began_at >= b.created_since
$$;
comment on function postrider.task_candidates(timestamptz, text, integer, integer, integer, integer, integer) is
'Internal. All tasks with something to do that are not stale, with what they weigh; see get_next_ready_tasks. Times in minutes.';

-- These two are inlined as well.
create function postrider.task_is_fresh(p_task postrider.tasker_tasks, p_now timestamptz, p_stays jsonb, p_began_since timestamptz) returns boolean
language sql stable as $$
    select coalesce(p_task.live, false) and coalesce(p_task.resumed_at, p_task.created_at) operator(pg_catalog.>=) p_began_since
           and p_task.state_entered_at operator(pg_catalog.>=) (p_now operator(pg_catalog.-)
               pg_catalog.make_interval(mins => (p_stays operator(pg_catalog.->>) p_task.state)::pg_catalog.int4))
$$;
comment on function postrider.task_is_fresh(postrider.tasker_tasks, timestamptz, jsonb, timestamptz) is
'Internal. Whether a task is not stale: p_stays says how many minutes it may be in each live state, p_began_since when it must have begun.';

create function postrider.tasks_in_turn(p_named_task_uuid uuid, p_priority integer, p_newest_first boolean, p_after timestamptz, p_until timestamptz,
    p_now timestamptz, p_stays jsonb, p_began_since timestamptz, p_limit integer)
returns table(task_uuid uuid, state text, created_at timestamptz)
language sql stable as $$
    (select t.task_uuid, t.state, t.created_at from postrider.tasker_tasks t
      where p_newest_first and t.priority operator(pg_catalog.>) 0 and t.ready_at operator(pg_catalog.<=) p_now and t.stale_flagged_at is null
        and t.named_task_uuid operator(pg_catalog.=) p_named_task_uuid and t.priority operator(pg_catalog.=) p_priority
        and t.created_at operator(pg_catalog.>) p_after and t.created_at operator(pg_catalog.<=) p_until and postrider.task_is_fresh(t, p_now, p_stays, p_began_since)
      order by t.created_at desc, t.task_uuid limit p_limit)
    union all
    (select t.task_uuid, t.state, t.created_at from postrider.tasker_tasks t
      where not p_newest_first and t.priority operator(pg_catalog.>) 0 and t.ready_at operator(pg_catalog.<=) p_now and t.stale_flagged_at is null
        and t.named_task_uuid operator(pg_catalog.=) p_named_task_uuid and t.priority operator(pg_catalog.=) p_priority
        and t.created_at operator(pg_catalog.>) p_after and t.created_at operator(pg_catalog.<=) p_until and postrider.task_is_fresh(t, p_now, p_stays, p_began_since)
      order by t.created_at, t.task_uuid limit p_limit)
    union all
    (select t.task_uuid, t.state, t.created_at from postrider.tasker_tasks t
      where not p_newest_first and t.priority operator(pg_catalog.<=) 0 and t.ready_at operator(pg_catalog.<=) p_now and t.stale_flagged_at is null
        and t.named_task_uuid operator(pg_catalog.=) p_named_task_uuid and t.priority operator(pg_catalog.=) p_priority
        and t.created_at operator(pg_catalog.>) p_after and t.created_at operator(pg_catalog.<=) p_until and postrider.task_is_fresh(t, p_now, p_stays, p_began_since)
      order by t.created_at, t.task_uuid limit p_limit)
$$;
comment on function postrider.tasks_in_turn(uuid, integer, boolean, timestamptz, timestamptz, timestamptz, jsonb, timestamptz, integer) is
'Internal. The first p_limit tasks of a template and a priority that have something to do and are not stale, created after p_after and until p_until.';

create function postrider.first_candidates(p_now timestamptz, p_namespace text, p_waiting_deps integer, p_waiting_retry integer,
    p_in_process integer, p_lifetime integer, p_half_life integer, p_limit integer)
returns table(task_uuid uuid, namespace text, template text, state text, begun boolean, priority integer, weight double precision, created_at timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_sort = off set enable_memoize = off set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
    -- What is older weighs as little as anything can, and a time to come no more than now.
    v_ancient timestamptz := p_now - make_interval(mins => least(p_half_life::bigint * 1000, 525600000)::integer);
begin
    return query
    with recursive template as materialized (
        select n.named_task_uuid, ns.name as namespace, n.name as template, m.initial_state,
               p_now - make_interval(mins => coalesce(
                   postrider.lifecycle_minutes(n.configuration->'lifecycle', 'max_duration_minutes'),
                   postrider.lifecycle_minutes(ns.lifecycle, 'max_duration_minutes'), p_lifetime)) as began_since,
               (select jsonb_object_agg(st.state, coalesce(
                           postrider.lifecycle_minutes(n.configuration->'lifecycle', 'max_' || st.state || '_minutes'),
                           postrider.lifecycle_minutes(ns.lifecycle, 'max_' || st.state || '_minutes'),
                           case st.state when 'waiting_for_dependencies' then p_waiting_deps
                                         when 'waiting_for_retry' then p_waiting_retry
                                         when 'steps_in_process' then p_in_process
                                         else 1440 end))
                  from postrider.tasker_machine_states st
                 where st.state_machine_id = n.state_machine_id and st.kind in ('initial', 'active', 'waiting')) as stays
          from postrider.tasker_named_tasks n
          join postrider.tasker_task_namespaces ns on ns.task_namespace_uuid = n.task_namespace_uuid
          join postrider.tasker_state_machines m on m.state_machine_id = n.state_machine_id
         where p_namespace is null or ns.name = p_namespace
    ), above as ( -- each priority by one step down the index
        select m.named_task_uuid, (
                   select k.priority from postrider.tasker_tasks k
                    where k.ready_at is not null and k.stale_flagged_at is null and k.priority > 0 and k.named_task_uuid = m.named_task_uuid
                    order by k.priority desc limit 1) as priority
          from template m
        union all
        select a.named_task_uuid, (
                   select k.priority from postrider.tasker_tasks k
                    where k.ready_at is not null and k.stale_flagged_at is null and k.priority > 0 and k.named_task_uuid = a.named_task_uuid
                      and k.priority < a.priority
                    order by k.priority desc limit 1)
          from above a where a.priority is not null
    ), below as (
        select m.named_task_uuid, (
                   select k.priority from postrider.tasker_tasks k
                    where k.ready_at is not null and k.stale_flagged_at is null and k.priority <= 0 and k.named_task_uuid = m.named_task_uuid
                    order by k.priority desc limit 1) as priority
          from template m
        union all
        select b.named_task_uuid, (
                   select k.priority from postrider.tasker_tasks k
                    where k.ready_at is not null and k.stale_flagged_at is null and k.priority <= 0 and k.named_task_uuid = b.named_task_uuid
                      and k.priority < b.priority
                    order by k.priority desc limit 1)
          from below b where b.priority is not null
    ), line as materialized (
        select a.named_task_uuid, a.priority, s.newest_first, s.after, s.until
          from above a
         cross join (values (true, v_ancient, p_now), (false, p_now, 'infinity'::timestamptz), (false, '-infinity'::timestamptz, v_ancient)) s(newest_first, after, until)
         where a.priority is not null
        union all
        select b.named_task_uuid, b.priority, false, '-infinity'::timestamptz, 'infinity'::timestamptz from below b where b.priority is not null
    ), head as materialized (
        -- A line whose first comes behind the firsts of so many others has none of those that are looked for.
        select l.*, m.namespace, m.template, m.initial_state, m.began_since, m.stays
          from template m
          join line l on l.named_task_uuid = m.named_task_uuid
         cross join lateral postrider.tasks_in_turn(l.named_task_uuid, l.priority, l.newest_first, l.after, l.until, p_now, m.stays, m.began_since, 1) t
         order by postrider.task_weight(l.priority, t.created_at, p_now, p_half_life) desc, t.created_at, t.task_uuid
         limit p_limit
    )
    select t.task_uuid, h.namespace, h.template, t.state, t.state <> h.initial_state, h.priority,
           postrider.task_weight(h.priority, t.created_at, p_now, p_half_life), t.created_at
      from head h
     cross join lateral postrider.tasks_in_turn(h.named_task_uuid, h.priority, h.newest_first, h.after, h.until, p_now, h.stays, h.began_since, p_limit) t
     order by 7 desc, t.created_at, t.task_uuid
     limit p_limit;
end $$;
comment on function postrider.first_candidates(timestamptz, text, integer, integer, integer, integer, integer, integer) is
'Internal. The p_limit tasks that task_candidates would put first, found without looking at the others: of each template and priority the tasks stand in the order of an index, and these lines are merged.';

create sequence postrider.tasker_tasks_discovered;
comment on sequence postrider.tasker_tasks_discovered is
'How many tasks get_next_ready_tasks has handed out: a metric. A sequence, because counting must make nobody wait for anybody.';

create function postrider.get_next_ready_tasks(p_limit integer default 10, p_namespace text default null,
    p_waiting_for_dependencies_minutes integer default 60, p_waiting_for_retry_minutes integer default 30,
    p_steps_in_process_minutes integer default 30, p_task_max_lifetime_hours integer default 24, p_priority_half_life_minutes integer default 60)
returns table(task_uuid uuid, namespace_name text, task_name text, state text, priority integer, computed_priority double precision, ready_steps integer)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
    v_now    timestamptz := clock_timestamp();
    v_given  uuid[] := '{}';
    v_ready  integer;
    v_many   boolean;
    v_window integer;
    v_seen   integer;
    v_bad    text;
    c        record;
begin
    select format('%s is %s, it must be from %s to %s', a.name, coalesce(a.value::text, 'null'), a.least, a.most) into v_bad
      from (values ('p_limit', p_limit, 1, 10000),
                   ('p_waiting_for_dependencies_minutes', p_waiting_for_dependencies_minutes, 1, 525600000),
                   ('p_waiting_for_retry_minutes', p_waiting_for_retry_minutes, 1, 525600000),
                   ('p_steps_in_process_minutes', p_steps_in_process_minutes, 1, 525600000),
                   ('p_task_max_lifetime_hours', p_task_max_lifetime_hours, 1, 8760000),
                   ('p_priority_half_life_minutes', p_priority_half_life_minutes, 1, 525600000)) a(name, value, least, most)
     where a.value is null or a.value not between a.least and a.most limit 1;
    if found then
        raise exception using errcode = '22023', message = 'postrider: ' || v_bad;
    end if;
    v_window := p_limit + 20;
    -- A few that are due are gathered and sorted. Of many the first are looked for, and more of them as others turn
    -- out to have these locked.
    v_many := (select count(*) from (
        select from postrider.tasker_named_tasks n
         cross join lateral (select from postrider.tasker_tasks k where k.named_task_uuid = n.named_task_uuid and k.ready_at <= v_now
                              order by k.ready_at limit 1001) d limit 1001) q) > 1000;
    loop
        v_seen := 0;
        -- Candidates in order, without locks; each is then locked and looked at again.
        for c in
            select q.* from postrider.task_candidates(v_now, p_namespace, p_waiting_for_dependencies_minutes, p_waiting_for_retry_minutes,
                p_steps_in_process_minutes, p_task_max_lifetime_hours * 60, p_priority_half_life_minutes) q where not v_many
            union all
            select q.* from postrider.first_candidates(v_now, p_namespace, p_waiting_for_dependencies_minutes, p_waiting_for_retry_minutes,
                p_steps_in_process_minutes, p_task_max_lifetime_hours * 60, p_priority_half_life_minutes, v_window) q where v_many
            order by weight desc, created_at, task_uuid
        loop
            v_seen := v_seen + 1;
            continue when v_window > p_limit + 20 and c.task_uuid = any (v_given);
            select k.state into state
              from postrider.tasker_tasks k
             where k.task_uuid = c.task_uuid and k.live and k.stale_flagged_at is null
               for update skip locked;
            continue when not found;
            select count(*) into v_ready from postrider.get_ready_steps(c.task_uuid);
            continue when v_ready = 0 and (c.begun or state <> c.state);
            task_uuid := c.task_uuid;
            namespace_name := c.namespace;
            task_name := c.template;
            priority := c.priority;
            computed_priority := c.weight;
            ready_steps := v_ready;
            perform nextval('postrider.tasker_tasks_discovered');
            return next;
            v_given := v_given || c.task_uuid;
            if cardinality(v_given) >= p_limit then
                return;
            end if;
        end loop;
        exit when not v_many or v_seen < v_window;
        v_window := v_window * 4;
    end loop;
end $$;
comment on function postrider.get_next_ready_tasks(integer, text, integer, integer, integer, integer, integer) is
'For who hands out work: tasks that nobody has begun (initial state) or that have steps whose turn it is, locked for the caller''s transaction; what others have locked is skipped. First by computed_priority: priority halved with every p_priority_half_life_minutes since the task was created; then the oldest. Stale tasks are left out by the same rule as the detector''s (template before namespace before the parameters; other states 1440 minutes), so that they cannot drown the fresh ones.';

create function postrider.worker_heartbeat(p_namespace text, p_worker text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_namespace uuid;
begin
    select ns.task_namespace_uuid into v_namespace from postrider.tasker_task_namespaces ns where ns.name = p_namespace;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no namespace %s', coalesce(quote_literal(p_namespace), 'null')),
            hint = 'A namespace is there once a template of it was applied: postrider template apply.';
    end if;
    if p_worker is null or octet_length(p_worker) not between 1 and 256 then
        raise exception using errcode = '22023', message = format('postrider: the name of a worker is %s bytes, it must be 1 to 256', coalesce(octet_length(p_worker), 0));
    end if;
    update postrider.tasker_workers w set last_heartbeat_at = greatest(w.last_heartbeat_at, clock_timestamp())
     where w.task_namespace_uuid = v_namespace and w.worker = p_worker;
    if found then
        return;
    end if;
    insert into postrider.tasker_workers as w (task_namespace_uuid, worker) values (v_namespace, p_worker)
        on conflict (task_namespace_uuid, worker) do update set last_heartbeat_at = greatest(w.last_heartbeat_at, clock_timestamp());
    -- Names come and go with processes, so a new one takes old ones along. It stays itself: the namespace has a worker.
    delete from postrider.tasker_workers w
     where w.task_namespace_uuid = v_namespace and w.worker in (
           select o.worker from postrider.tasker_workers o
            where o.task_namespace_uuid = v_namespace and o.last_heartbeat_at < clock_timestamp() - interval '30 days'
            limit 100 for update skip locked);
end $$;
comment on function postrider.worker_heartbeat(text, text) is
'For workers: says that a worker of a namespace is there. Once a minute is enough. While a namespace has workers and none was heard of, its stale tasks say worker_unavailable. A worker that is new removes those of the namespace that were not heard of for 30 days. P0002 for an unknown namespace.';

revoke all on function postrider.task_template(text, text, text) from public;
revoke all on function postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text) from public;
revoke all on function postrider.task_end_cycle(uuid, text[]) from public;
revoke all on function postrider.lifecycle_minutes(jsonb, text) from public;
revoke all on function postrider.get_ready_steps(uuid) from public;
revoke all on function postrider.get_next_ready_tasks(integer, text, integer, integer, integer, integer, integer) from public;
revoke all on function postrider.task_candidates(timestamptz, text, integer, integer, integer, integer, integer) from public;
revoke all on function postrider.task_weight(integer, timestamptz, timestamptz, integer) from public;
revoke all on function postrider.task_is_fresh(postrider.tasker_tasks, timestamptz, jsonb, timestamptz) from public;
revoke all on function postrider.tasks_in_turn(uuid, integer, boolean, timestamptz, timestamptz, timestamptz, jsonb, timestamptz, integer) from public;
revoke all on function postrider.first_candidates(timestamptz, text, integer, integer, integer, integer, integer, integer) from public;
revoke all on function postrider.worker_heartbeat(text, text) from public;
