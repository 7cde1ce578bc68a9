-- Templates come in through one function. The command checks a template thoroughly and says what to do about
-- each mistake; what is checked here again is what would break other functions.

create function postrider.template_refuse(p_what text, p_hint text default null) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    raise exception using errcode = '22023', message = 'postrider: ' || p_what,
        hint = coalesce(p_hint, 'postrider template validate tells everything that is wrong with a template, and where.');
end $$;
comment on function postrider.template_refuse(text, text) is 'Internal. Refuses a template, with error 22023.';

create function postrider.template_check_lifecycle(p_lifecycle jsonb, p_whose text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_key   text;
    v_value jsonb;
begin
    if jsonb_typeof(p_lifecycle) <> 'object' then
        perform postrider.template_refuse(format('the lifecycle of %s is not an object', p_whose));
    end if;
    for v_key, v_value in select key, value from jsonb_each(p_lifecycle) loop
        if v_key ~ '^max_.+_minutes$' then
            if jsonb_typeof(v_value) <> 'number' or v_value::text !~ '^[1-9][0-9]{0,6}$' or v_value::text::integer > 5256000 then
                perform postrider.template_refuse(format('lifecycle.%s of %s is %s; it must be a whole number from 1 to 5256000', v_key, p_whose, v_value));
            end if;
        elsif v_key = 'staleness_action' then
            if v_value not in ('"dlq"', '"error"', '"manual_review"') then
                perform postrider.template_refuse(format('lifecycle.staleness_action of %s is %s; it must be dlq, error or manual_review', p_whose, v_value));
            end if;
        elsif v_key in ('auto_fail_on_timeout', 'auto_dlq_on_timeout') then
            if jsonb_typeof(v_value) <> 'boolean' then
                perform postrider.template_refuse(format('lifecycle.%s of %s is %s; it must be true or false', v_key, p_whose, v_value));
            end if;
        else
            perform postrider.template_refuse(format('lifecycle.%s of %s is not known', v_key, p_whose));
        end if;
    end loop;
end $$;
comment on function postrider.template_check_lifecycle(jsonb, text) is
'Internal. Refuses a lifecycle that the detector could not read, with error 22023.';

create function postrider.template_check_steps(p_steps jsonb, p_whose text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_cycle text[];
begin
    perform postrider.task_check_steps(p_steps);
    v_cycle := postrider.task_cycle(p_steps);
    if cardinality(v_cycle) > 0 then
        perform postrider.template_refuse(format('steps of %s wait for each other: %s', p_whose, array_to_string(v_cycle[1:20], ', ')));
    end if;
end $$;
comment on function postrider.template_check_steps(jsonb, text) is
'Internal. Refuses steps of which no task could be made, and cycles, with error 22023.';

create function postrider.template_check_events(p_configuration jsonb, p_whose text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_key   text;
    v_topic text;
begin
    foreach v_key in array array['events', 'start_event'] loop
        continue when not p_configuration ? v_key;
        v_topic := p_configuration->v_key->>'topic';
        if jsonb_typeof(p_configuration->v_key) <> 'object' or v_key = 'start_event' and v_topic is null
           or v_topic !~ '^[a-zA-Z0-9._-]{1,249}$' or v_topic in ('.', '..') then
            perform postrider.template_refuse(format('%s of %s needs a Kafka topic name as topic: %s', v_key, p_whose, left((p_configuration->v_key)::text, 300)));
        end if;
    end loop;
    if p_configuration ? 'max_retries'
       and (jsonb_typeof(p_configuration->'max_retries') <> 'number' or p_configuration->>'max_retries' !~ '^[1-9][0-9]{0,3}$') then
        perform postrider.template_refuse(format('max_retries of %s is %s; it must be a whole number from 1 to 9999', p_whose, left((p_configuration->'max_retries')::text, 100)));
    end if;
end $$;
comment on function postrider.template_check_events(jsonb, text) is
'Internal. Refuses a template whose events could not be written, with error 22023.';

create function postrider.template_check_patterns(p_schema jsonb, p_whose text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_path    text;
    v_pattern text;
begin
    for v_path, v_pattern in
        with recursive schema(node, path) as (
            select p_schema, 'input_schema'
            union all
            select c.node, c.path
            from schema s, lateral (
                select v.value as node, s.path || '.' || v.key as path
                from jsonb_each(case jsonb_typeof(s.node) when 'object' then s.node else '{}' end) v
                where v.key in ('items', 'additionalProperties', 'not')
                union all
                select v.value, s.path || '.properties.' || v.key
                from jsonb_each(case jsonb_typeof(s.node->'properties') when 'object' then s.node->'properties' else '{}' end) v
                union all
                select v.value, s.path || '.' || k.key || '[' || v.position - 1 || ']'
                from unnest(array['allOf', 'anyOf', 'oneOf']) k(key),
                     jsonb_array_elements(case jsonb_typeof(s.node->k.key) when 'array' then s.node->k.key else '[]' end) with ordinality v(value, position)
            ) c
        )
        select s.path || '.pattern', s.node->>'pattern' from schema s where jsonb_typeof(s.node->'pattern') = 'string'
    loop
        begin
            perform '' ~ v_pattern;
        exception when invalid_regular_expression then
            perform postrider.template_refuse(format('%s of %s is no regular expression of PostgreSQL: %s', v_path, p_whose, sqlerrm));
        end;
    end loop;
end $$;
comment on function postrider.template_check_patterns(jsonb, text) is
'Internal. Refuses an input_schema with a pattern that PostgreSQL does not understand, with error 22023.';

create function postrider.template_check_machine(p_machine jsonb, p_whose text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_names text[];
    v_bad   text;
begin
    if jsonb_typeof(p_machine) <> 'object' or jsonb_typeof(p_machine->'states') is distinct from 'array'
       or jsonb_typeof(coalesce(p_machine->'transitions', '[]')) <> 'array' or jsonb_typeof(coalesce(p_machine->'roles', '{}')) <> 'object'
       or jsonb_typeof(coalesce(p_machine->'retryable', '[]')) <> 'array' then
        perform postrider.template_refuse(format('the machine of %s needs arrays of states, transitions and retryable states, and an object of roles', p_whose));
    end if;
    select s.value::text into v_bad from jsonb_array_elements(p_machine->'states') s(value)
    where jsonb_typeof(s.value->'name') is distinct from 'string' or s.value->>'name' !~ '^[A-Za-z0-9_.-]{1,128}$'
       or coalesce(s.value->>'kind', '') not in ('initial', 'active', 'waiting', 'failed', 'terminal') limit 1;
    if found then
        perform postrider.template_refuse(format('a state of %s needs a name and a kind, which is initial, active, waiting, failed or terminal: %s', p_whose, left(v_bad, 200)));
    end if;
    select s.value::text into v_bad from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) s(value)
    where jsonb_typeof(s.value->'from') is distinct from 'string' or jsonb_typeof(s.value->'to') is distinct from 'array' limit 1;
    if found then
        perform postrider.template_refuse(format('a transition of %s needs a state from and an array to: %s', p_whose, left(v_bad, 200)));
    end if;
    select array_agg(s.value->>'name') into v_names from jsonb_array_elements(p_machine->'states') s(value);
    select n.name into v_bad from unnest(v_names) n(name) group by n.name having count(*) > 1 limit 1;
    if found then
        perform postrider.template_refuse(format('%s has the state %s twice', p_whose, v_bad));
    end if;
    if (select count(*) from jsonb_array_elements(p_machine->'states') s(value) where s.value->>'kind' = 'initial') <> 1 then
        perform postrider.template_refuse(format('the machine of %s needs exactly one state of the kind initial', p_whose));
    end if;
    select n.name into v_bad
    from (select t.value->>'from' from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) t(value)
          union all
          select d.name from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) t(value), jsonb_array_elements_text(t.value->'to') d(name)
          union all
          select r.value from jsonb_each_text(coalesce(p_machine->'roles', '{}')) r
          union all
          select y.name from jsonb_array_elements_text(coalesce(p_machine->'retryable', '[]')) y(name)) n(name)
    where n.name is null or n.name <> all (v_names) limit 1;
    if found then
        perform postrider.template_refuse(format('the machine of %s has no state %s', p_whose, coalesce(v_bad, 'null')));
    end if;
    select s.value->>'name' into v_bad
    from jsonb_array_elements(p_machine->'states') s(value)
    where s.value->>'kind' = 'terminal'
      and exists (select from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) t(value) where t.value->>'from' = s.value->>'name') limit 1;
    if found then
        perform postrider.template_refuse(format('the state %s of %s is terminal, nothing can follow it', v_bad, p_whose));
    end if;
end $$;
comment on function postrider.template_check_machine(jsonb, text) is
'Internal. Refuses a machine in which tasks could not begin, or that names states it does not have, with error 22023.';

create function postrider.template_machine(p_state_machine_id integer) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'states', (select jsonb_object_agg(s.state, s.kind) from postrider.tasker_machine_states s where s.state_machine_id = m.state_machine_id),
        'transitions', (select coalesce(jsonb_agg(jsonb_build_array(t.from_state, t.to_state) order by t.from_state, t.to_state), '[]')
                        from postrider.tasker_machine_transitions t where t.state_machine_id = m.state_machine_id),
        'roles', jsonb_build_array(m.complete_state, m.failed_state, m.cancelled_state, m.dead_letter_state, m.archived_state),
        'retryable', (select coalesce(jsonb_agg(r.state order by r.state), '[]') from unnest(m.retryable_states) r(state)))
    from postrider.tasker_state_machines m where m.state_machine_id = p_state_machine_id
$$;
comment on function postrider.template_machine(integer) is
'Internal. A machine in a form that is equal for equal machines, to tell whether one changed.';

create function postrider.template_machine_of(p_machine jsonb) returns jsonb
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'states', (select jsonb_object_agg(s.value->>'name', s.value->>'kind') from jsonb_array_elements(p_machine->'states') s(value)),
        'transitions', (select coalesce(jsonb_agg(jsonb_build_array(t.from_state, t.to_state) order by t.from_state, t.to_state), '[]')
                        from (select distinct f.value->>'from' as from_state, d.name as to_state
                              from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) f(value), jsonb_array_elements_text(f.value->'to') d(name)) t),
        'roles', jsonb_build_array(p_machine->'roles'->>'complete', p_machine->'roles'->>'failed', p_machine->'roles'->>'cancelled',
                                   p_machine->'roles'->>'dead_letter', p_machine->'roles'->>'archived'),
        'retryable', (select coalesce(jsonb_agg(r.state order by r.state), '[]') from jsonb_array_elements_text(coalesce(p_machine->'retryable', '[]')) r(state)))
$$;
comment on function postrider.template_machine_of(jsonb) is 'Internal. What template_machine returns once this machine is stored; null for null.';

create function postrider.template_store_machine(p_name text, p_machine jsonb) returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    v_id integer;
begin
    insert into postrider.tasker_state_machines as m
        (name, initial_state, complete_state, failed_state, cancelled_state, dead_letter_state, archived_state, retryable_states)
    select p_name, s.value->>'name', p_machine->'roles'->>'complete', p_machine->'roles'->>'failed', p_machine->'roles'->>'cancelled',
           p_machine->'roles'->>'dead_letter', p_machine->'roles'->>'archived',
           array(select y.name from jsonb_array_elements_text(coalesce(p_machine->'retryable', '[]')) y(name))
    from jsonb_array_elements(p_machine->'states') s(value) where s.value->>'kind' = 'initial'
    on conflict (name) do update set
        initial_state = excluded.initial_state, complete_state = excluded.complete_state, failed_state = excluded.failed_state,
        cancelled_state = excluded.cancelled_state, dead_letter_state = excluded.dead_letter_state,
        archived_state = excluded.archived_state, retryable_states = excluded.retryable_states
    returning m.state_machine_id into v_id;
    delete from postrider.tasker_machine_states where state_machine_id = v_id; -- and with them the transitions
    insert into postrider.tasker_machine_states (state_machine_id, state, kind)
    select v_id, s.value->>'name', s.value->>'kind' from jsonb_array_elements(p_machine->'states') s(value);
    insert into postrider.tasker_machine_transitions (state_machine_id, from_state, to_state)
    select distinct v_id, t.value->>'from', d.name
    from jsonb_array_elements(coalesce(p_machine->'transitions', '[]')) t(value), jsonb_array_elements_text(t.value->'to') d(name);
    return v_id;
end $$;
comment on function postrider.template_store_machine(text, jsonb) is
'Internal. Writes a machine, or writes it anew, and returns its id. No task may be in one that changes.';

create function postrider.template_builtin() returns integer
language sql stable set search_path = pg_catalog, pg_temp as $$
    select m.state_machine_id from postrider.tasker_state_machines m where m.name = 'workflow'
$$;
comment on function postrider.template_builtin() is 'Internal. The built-in machine.';

create function postrider.apply_template(p_configuration jsonb, p_machine jsonb default null) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_name      text := p_configuration->>'name';
    v_namespace text := p_configuration->>'namespace_name';
    v_version   text := p_configuration->>'version';
    v_machine   jsonb := p_machine;
    v_whose     text;
    v_own       text; -- name of a machine of its own
    v_namespace_uuid uuid;
    v_id        integer;
    v_template  postrider.tasker_named_tasks;
begin
    if jsonb_typeof(p_configuration) is distinct from 'object' then
        perform postrider.template_refuse('a template is a JSON object, not ' || coalesce(jsonb_typeof(p_configuration), 'null'));
    end if;
    if coalesce(v_name, '') !~ '^[A-Za-z0-9_.-]{1,128}$' or coalesce(v_namespace, '') !~ '^[A-Za-z0-9_.-]{1,128}$' then
        perform postrider.template_refuse(format('name %s and namespace_name %s must be 1 to 128 letters, digits, underscores, dots and hyphens',
                                                 coalesce(quote_literal(left(v_name, 140)), 'null'), coalesce(quote_literal(left(v_namespace, 140)), 'null')));
    end if;
    if coalesce(v_version, '') !~ '^(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}$' then
        perform postrider.template_refuse(format('version %s must be three numbers with dots, for example 1.0.0', coalesce(quote_literal(left(v_version, 140)), 'null')));
    end if;
    v_whose := 'template ' || v_namespace || '/' || v_name || '@' || v_version;
    v_own := v_namespace || '/' || v_name || '@' || v_version;
    perform postrider.template_check_lifecycle(p_configuration->'lifecycle', v_whose) where p_configuration ? 'lifecycle';
    perform postrider.template_check_steps(p_configuration->'steps', v_whose) where p_configuration ? 'steps';
    perform postrider.template_check_events(p_configuration, v_whose);
    perform postrider.template_check_patterns(p_configuration->'input_schema', v_whose) where p_configuration ? 'input_schema';
    if v_machine is null and p_configuration ? 'states' then
        v_machine := jsonb_strip_nulls(jsonb_build_object('states', p_configuration->'states', 'transitions', p_configuration->'transitions',
                                                          'roles', p_configuration->'roles', 'retryable', p_configuration->'retryable'));
    end if;
    if v_machine is not null then
        perform postrider.template_check_machine(v_machine, v_whose);
    end if;

    -- Appliers of one namespace wait for each other; tasks do not wait.
    insert into postrider.tasker_task_namespaces (name) values (v_namespace) on conflict (name) do nothing;
    select n.task_namespace_uuid into v_namespace_uuid
    from postrider.tasker_task_namespaces n where n.name = v_namespace for no key update;
    select * into v_template from postrider.tasker_named_tasks t
    where t.task_namespace_uuid = v_namespace_uuid and t.name = v_name and t.version = v_version for no key update;
    if not found then
        perform postrider.access_owe();
        v_id := case when v_machine is null then postrider.template_builtin() else postrider.template_store_machine(v_own, v_machine) end;
        insert into postrider.tasker_named_tasks (task_namespace_uuid, name, version, description, configuration, state_machine_id)
        values (v_namespace_uuid, v_name, v_version, p_configuration->>'description', p_configuration, v_id)
        returning * into v_template;
        return v_template.named_task_uuid;
    end if;

    if postrider.template_machine(v_template.state_machine_id)
       = coalesce(postrider.template_machine_of(v_machine), postrider.template_machine(postrider.template_builtin())) then
        v_id := v_template.state_machine_id;
    else
        -- With this lock no task of the template can be created until we are done.
        perform from postrider.tasker_named_tasks t where t.named_task_uuid = v_template.named_task_uuid for update;
        if exists (select from postrider.tasker_tasks t where t.named_task_uuid = v_template.named_task_uuid) then
            raise exception using errcode = '55000',
                message = format('postrider: %s has tasks, its states and transitions cannot change any more', v_whose),
                hint = 'Raise the version: tasks that are there go on with their own, new ones take the highest.';
        end if;
        v_id := case when v_machine is null then postrider.template_builtin() else postrider.template_store_machine(v_own, v_machine) end;
    end if;
    if v_id <> v_template.state_machine_id or v_template.configuration <> p_configuration
       or v_template.description is distinct from p_configuration->>'description' then
        perform postrider.access_owe();
        update postrider.tasker_named_tasks t
        set configuration = p_configuration, description = p_configuration->>'description', state_machine_id = v_id, updated_at = clock_timestamp()
        where t.named_task_uuid = v_template.named_task_uuid;
    end if;
    delete from postrider.tasker_state_machines m where m.name = v_own and m.state_machine_id <> v_id; -- one that it had before
    return v_template.named_task_uuid;
end $$;
comment on function postrider.apply_template(jsonb, jsonb) is
'Puts a template into the database, or changes it, and returns its id; the same again changes nothing. p_configuration is the template as JSON, with dependencies as names; p_machine its states, transitions, roles and retryable states, taken from the template if null, and the built-in ones if that has none. A changed lifecycle holds for the tasks that are there, too; everything else for new ones. Error 22023 says what is wrong with it, 55000 that tasks of this version exist and its machine would change.';

create function postrider.apply_namespace(p_name text, p_lifecycle jsonb default null, p_description text default null) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_id      uuid;
    v_unknown text;
    v_live    text;
begin
    if coalesce(p_name, '') !~ '^[A-Za-z0-9_.-]{1,128}$' then
        perform postrider.template_refuse(format('namespace %s must be 1 to 128 letters, digits, underscores, dots and hyphens', coalesce(quote_literal(left(p_name, 140)), 'null')));
    end if;
    if p_lifecycle is not null then
        perform postrider.template_check_lifecycle(p_lifecycle, 'namespace ' || p_name);
        -- A misspelt state would be no limit, and nobody would know.
        with known as materialized (
            select distinct s.state from postrider.tasker_machine_states s
            where s.kind in ('initial', 'active', 'waiting') and (s.state_machine_id = postrider.template_builtin() or s.state_machine_id in (
                select n.state_machine_id from postrider.tasker_named_tasks n
                join postrider.tasker_task_namespaces ns on ns.task_namespace_uuid = n.task_namespace_uuid where ns.name = p_name))
        )
        select (select string_agg('lifecycle.' || l.key, ', ' order by l.key) from jsonb_object_keys(p_lifecycle) l(key)
                where l.key ~ '^max_.+_minutes$' and l.key <> 'max_duration_minutes' and substr(l.key, 5, length(l.key) - 12) not in (select k.state from known k)),
               (select string_agg(k.state, ', ' order by k.state) from known k)
        into v_unknown, v_live;
        if v_unknown is not null then
            perform postrider.template_refuse(format('namespace %s: %s: unknown state; its templates have %s', p_name, v_unknown, v_live),
                'States of a template of its own are known once it was applied: postrider template apply.');
        end if;
    end if;
    perform postrider.access_owe();
    insert into postrider.tasker_task_namespaces as n (name, lifecycle, description)
    values (p_name, coalesce(p_lifecycle, '{}'), p_description)
    on conflict (name) do update
    set lifecycle = coalesce(p_lifecycle, n.lifecycle), description = coalesce(p_description, n.description), updated_at = now()
    returning n.task_namespace_uuid into v_id;
    return v_id;
end $$;
comment on function postrider.apply_namespace(text, jsonb, text) is
'Creates a namespace or changes it, and returns its id. p_lifecycle replaces the lifecycle of the namespace, p_description what is said about it; null keeps them. Error 22023 says what is wrong.';

revoke all on function postrider.template_refuse(text, text), postrider.template_check_lifecycle(jsonb, text),
    postrider.template_check_steps(jsonb, text), postrider.template_check_events(jsonb, text), postrider.template_check_patterns(jsonb, text),
    postrider.template_check_machine(jsonb, text), postrider.template_machine(integer), postrider.template_machine_of(jsonb), postrider.template_builtin(),
    postrider.template_store_machine(text, jsonb), postrider.apply_template(jsonb, jsonb),
    postrider.apply_namespace(text, jsonb, text) from public;
