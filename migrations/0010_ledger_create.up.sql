-- Creating tasks, and finding those that somebody should work on.

create function postrider.task_cycle(p_steps jsonb) returns text[]
language plpgsql immutable
-- Hash joins: a loop over the pairs of steps would be quick to begin, and slow to end where there is no cycle.
set search_path = pg_catalog, pg_temp set enable_nestloop = off set enable_mergejoin = off set jit = off as $$
declare
    v_left jsonb; -- step -> what it depends on
    v_gone text[];
begin
    -- Where every step comes after what it depends on, as nearly everybody writes them, there is no cycle.
    if not exists (
        with step as materialized (
            select s.step->>'name' as name, s.step, s.n from jsonb_array_elements(p_steps) with ordinality s(step, n)
        ), edge as materialized (
            select s.n, d.name from step s cross join jsonb_array_elements_text(postrider.step_dependencies(s.step)) d(name)
        )
        select from edge e join step o on o.name = e.name where o.n >= e.n) then
        return '{}';
    end if;
    select jsonb_object_agg(s->>'name', postrider.step_dependencies(s)) into v_left from jsonb_array_elements(p_steps) s;
    -- What depends on nothing that is left is on no cycle …
    loop
        select array_agg(l.key) into v_gone
          from jsonb_each(v_left) l
         where not v_left ?| array(select jsonb_array_elements_text(l.value));
        exit when v_gone is null;
        v_left := v_left - v_gone;
    end loop;
    -- … nor what nothing that is left depends on.
    loop
        select array_agg(l.key) into v_gone
          from jsonb_each(v_left) l
         where l.key not in (select d from jsonb_each(v_left) o cross join jsonb_array_elements_text(o.value) d);
        exit when v_gone is null;
        v_left := v_left - v_gone;
    end loop;
    return array(select k from jsonb_object_keys(v_left) k order by k collate "C");
end $$;
comment on function postrider.task_cycle(jsonb) is 'Internal. The names of the steps (as create_task takes them) that depend on themselves over others, and of those between; empty if there are none.';

create function postrider.step_dependencies(p_step jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case jsonb_typeof(p_step->'dependencies') when 'array' then p_step->'dependencies' when 'string' then jsonb_build_array(p_step->'dependencies') else '[]' end
        || case jsonb_typeof(p_step->'depends_on_step') when 'array' then p_step->'depends_on_step' when 'string' then jsonb_build_array(p_step->'depends_on_step') else '[]' end
$$;
comment on function postrider.step_dependencies(jsonb) is 'Internal. The names in dependencies and depends_on_step of a step as templates write it; each may be one name or a list.';

create function postrider.step_number(p_step jsonb, p_key text, p_default double precision, p_least double precision, p_most double precision) returns double precision
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    if jsonb_typeof(p_step->p_key) is null or jsonb_typeof(p_step->p_key) = 'null' then
        return p_default;
    end if;
    if jsonb_typeof(p_step->p_key) <> 'number' or (p_step->>p_key)::numeric not between p_least::numeric and p_most::numeric then
        raise exception using errcode = '22023', message = format('postrider: step %s: %s is %s, it must be a number from %s to %s',
            p_step->>'name', p_key, left((p_step->p_key)::text, 100), p_least, p_most);
    end if;
    return (p_step->>p_key)::numeric;
end $$;
comment on function postrider.step_number(jsonb, text, double precision, double precision, double precision) is 'Internal. A number of a step as templates write it, or the default; 22023 if it is none or out of range.';

create function postrider.task_check_steps(p_steps jsonb) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_step  jsonb;
    v_names jsonb;
    v_bad   text;
begin
    if jsonb_typeof(p_steps) <> 'array' then
        raise exception using errcode = '22023', message = format('postrider: steps are a JSON %s, they must be an array', jsonb_typeof(p_steps));
    elsif jsonb_array_length(p_steps) > 5000 then
        -- The event about a new task names its steps, and should fit a record of Kafka.
        raise exception using errcode = '22023', message = format('postrider: there are %s steps, a task has at most 5000', jsonb_array_length(p_steps)),
            hint = 'Make several tasks of it.';
    end if;
    select jsonb_object_agg(s->>'name', true) into v_names from jsonb_array_elements(p_steps) s where jsonb_typeof(s->'name') = 'string';
    for v_step in select jsonb_array_elements(p_steps) loop
        if jsonb_typeof(v_step) <> 'object' or jsonb_typeof(v_step->'name') is distinct from 'string' or v_step->>'name' = '' then
            v_bad := format('%s has no name', left(v_step::text, 100));
        elsif octet_length(v_step->>'name') > 256 then
            v_bad := format('%s… has a name of %s bytes, the limit is 256', left(v_step->>'name', 50), octet_length(v_step->>'name'));
        elsif exists (select from jsonb_array_elements(postrider.step_dependencies(v_step)) d where jsonb_typeof(d) <> 'string') then
            v_bad := format('%s depends on %s, which are not names', v_step->>'name', left(postrider.step_dependencies(v_step)::text, 100));
        else
            select format('%s depends on %s, which is no step', v_step->>'name', d) into v_bad
              from jsonb_array_elements_text(postrider.step_dependencies(v_step)) d
             where not v_names ? d limit 1;
        end if;
        if v_bad is not null then
            raise exception using errcode = '22023', message = 'postrider: step ' || v_bad;
        end if;
    end loop;
    select s->>'name' into v_bad from jsonb_array_elements(p_steps) s group by 1 having count(*) > 1 limit 1;
    if found then
        raise exception using errcode = '22023', message = format('postrider: there are two steps %s', v_bad);
    end if;
end $$;
comment on function postrider.task_check_steps(jsonb) is 'Internal. Raises 22023 naming what is wrong with steps as create_task takes them. A cycle is not: see task_cycle.';

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
    -- apply_template changes no machine while a task of it comes into being.
    perform from postrider.tasker_named_tasks t where t.named_task_uuid = v_template for key share;
    select t.configuration, m.initial_state into n
      from postrider.tasker_named_tasks t join postrider.tasker_state_machines m using (state_machine_id)
     where t.named_task_uuid = v_template;
    if p_idempotency_key is not null then
        if octet_length(p_idempotency_key) not between 1 and 512 then
            raise exception using errcode = '22023',
                message = format('postrider: idempotency_key is %s bytes, it must be 1 to 512', octet_length(p_idempotency_key));
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
    perform postrider.task_check_depth(v_context, 'the context');
    perform postrider.task_check_depth(p_steps, 'one of the steps');
    perform postrider.task_check_input(n.configuration->'input_schema', v_context);
    v_steps := coalesce(p_steps, n.configuration->'steps', '[]');
    v_steps := case when jsonb_typeof(v_steps) = 'null' then '[]' else v_steps end;
    perform postrider.task_check_steps(v_steps);

    insert into postrider.tasker_tasks (task_uuid, named_task_uuid, state, live, state_entered_at, sort_key, context, priority,
                                        idempotency_key, ready_at, created_at, updated_at)
    values (v_task, v_template, n.initial_state, true, v_now, 1, v_context, coalesce(p_priority, 0), p_idempotency_key, v_now, v_now, v_now)
        on conflict do nothing;
    if not found then
        raise exception using errcode = '23505', message = format('postrider: there is a task %s already', v_task),
            hint = 'Leave p_task_uuid out to get a new one; to create a task only once, give an idempotency key.';
    end if;
    insert into postrider.tasker_task_transitions (task_uuid, to_state, metadata, sort_key, most_recent, created_at)
    values (v_task, n.initial_state, v_meta, 1, true, v_now);
    with step as (
        insert into postrider.tasker_workflow_steps (task_uuid, step_name, handler_name, position, dependencies, max_retries,
            retry_base_seconds, retry_max_seconds, inputs, state_entered_at, created_at, updated_at)
        select v_task, s.step->>'name',
               case jsonb_typeof(s.step->'handler') when 'string' then s.step->>'handler'
                   when 'object' then coalesce(s.step->'handler'->>'name', s.step->'handler'->>'callable', s.step->'handler'->>'class') end,
               s.n - 1, array(select jsonb_array_elements_text(postrider.step_dependencies(s.step))),
               postrider.step_number(s.step, 'max_retries', 3, 0, 1000000)::integer,
               postrider.step_number(s.step, 'retry_base_seconds', 1, 0.001, 31536000),
               postrider.step_number(s.step, 'retry_max_seconds', greatest(60, postrider.step_number(s.step, 'retry_base_seconds', 1, 0.001, 31536000)), 0.001, 31536000),
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
'Creates a task of a template, with its steps and the event that says so, in the caller''s transaction, and returns its uuid. p_context must fit the template''s input_schema (22023 names the path). p_version null takes the newest. p_steps, an array in the form of a template''s steps, takes the place of the template''s; steps in a cycle send the task to its failed state with a dead letter. p_idempotency_key: a second call for the template returns the first task, live or archived. P0002: no such template.';

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

create function postrider.task_candidates(p_now timestamptz, p_namespace text, p_waiting_deps integer, p_waiting_retry integer,
    p_in_process integer, p_lifetime integer, p_half_life integer)
returns table(task_uuid uuid, namespace text, template text, state text, kind text, priority integer, weight double precision, created_at timestamptz)
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
    select k.task_uuid, b.namespace, b.template, k.state, b.kind, k.priority,
           k.priority * power(0.5::double precision, least(greatest(extract(epoch from p_now - k.created_at) / 60 / p_half_life, 0), 1000)::double precision),
           k.created_at
      from ready k
      join bound b using (named_task_uuid, state)
     where k.state_entered_at >= b.entered_since and k.began_at >= b.created_since
$$;
comment on function postrider.task_candidates(timestamptz, text, integer, integer, integer, integer, integer) is
'Internal. Tasks with something to do that are not stale, with what they weigh; see get_next_ready_tasks. Times in minutes.';

create sequence postrider.tasker_tasks_discovered;
comment on sequence postrider.tasker_tasks_discovered is
'How many tasks get_next_ready_tasks has handed out: a metric. A sequence, because counting must make nobody wait for anybody.';

create function postrider.get_next_ready_tasks(p_limit integer default 10, p_namespace text default null,
    p_waiting_for_dependencies_minutes integer default 60, p_waiting_for_retry_minutes integer default 30,
    p_steps_in_process_minutes integer default 30, p_task_max_lifetime_hours integer default 24, p_priority_half_life_minutes integer default 60)
returns table(task_uuid uuid, namespace_name text, task_name text, state text, priority integer, computed_priority double precision, ready_steps integer)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    v_now   timestamptz := clock_timestamp();
    v_found integer := 0;
    v_ready integer;
    v_bad   text;
    c       record;
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
    -- Candidates in order, without locks; each is then locked and looked at again.
    for c in
        select * from postrider.task_candidates(v_now, p_namespace, p_waiting_for_dependencies_minutes, p_waiting_for_retry_minutes,
            p_steps_in_process_minutes, p_task_max_lifetime_hours * 60, p_priority_half_life_minutes) q
         order by q.weight desc, q.created_at, q.task_uuid
    loop
        select k.state into state
          from postrider.tasker_tasks k
         where k.task_uuid = c.task_uuid and k.live and k.stale_flagged_at is null
           for update skip locked;
        continue when not found;
        select count(*) into v_ready from postrider.get_ready_steps(c.task_uuid);
        continue when v_ready = 0 and (c.kind <> 'initial' or state <> c.state);
        task_uuid := c.task_uuid;
        namespace_name := c.namespace;
        task_name := c.template;
        priority := c.priority;
        computed_priority := c.weight;
        ready_steps := v_ready;
        perform nextval('postrider.tasker_tasks_discovered');
        return next;
        v_found := v_found + 1;
        exit when v_found >= p_limit;
    end loop;
end $$;
comment on function postrider.get_next_ready_tasks(integer, text, integer, integer, integer, integer, integer) is
'For who hands out work: tasks that nobody has begun (initial state) or that have steps whose turn it is, locked for the caller''s transaction; what others have locked is skipped. First by computed_priority: priority halved with every p_priority_half_life_minutes since the task was created; then the oldest. Stale tasks are left out by the same rule as the detector''s (template before namespace before the parameters; other states 1440 minutes), so that they cannot drown the fresh ones.';

revoke all on function postrider.task_cycle(jsonb) from public;
revoke all on function postrider.step_dependencies(jsonb) from public;
revoke all on function postrider.step_number(jsonb, text, double precision, double precision, double precision) from public;
revoke all on function postrider.task_check_steps(jsonb) from public;
revoke all on function postrider.task_template(text, text, text) from public;
revoke all on function postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text) from public;
revoke all on function postrider.task_end_cycle(uuid, text[]) from public;
revoke all on function postrider.lifecycle_minutes(jsonb, text) from public;
revoke all on function postrider.get_ready_steps(uuid) from public;
revoke all on function postrider.get_next_ready_tasks(integer, text, integer, integer, integer, integer, integer) from public;
revoke all on function postrider.task_candidates(timestamptz, text, integer, integer, integer, integer, integer) from public;
