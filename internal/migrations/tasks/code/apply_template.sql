-- Templates come in through this function alone. The command checks a template thoroughly and says what to do about each
-- mistake. Only mistakes that would break other functions are checked here again.
create or replace function postrider.apply_template(p_configuration jsonb, p_machine jsonb default null) returns uuid
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
    if p_configuration->'cancelled_steps' not in ('"cancel"', '"skip"', '"wait"') then
        perform postrider.template_refuse(format('cancelled_steps of %s is %s; it must be cancel, skip or wait', v_whose, left((p_configuration->'cancelled_steps')::text, 100)));
    end if;
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
        perform postrider.access_owe('{template.apply}', 'template', array[v_own]);
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
        perform postrider.access_owe('{template.apply}', 'template', array[v_own]);
        update postrider.tasker_named_tasks t
        set configuration = p_configuration, description = p_configuration->>'description', state_machine_id = v_id, updated_at = clock_timestamp()
        where t.named_task_uuid = v_template.named_task_uuid;
    end if;
    delete from postrider.tasker_state_machines m where m.name = v_own and m.state_machine_id <> v_id; -- one that it had before
    return v_template.named_task_uuid;
end $$;
comment on function postrider.apply_template(jsonb, jsonb) is
'Puts a template into the database, or changes it, and returns its id; the same again changes nothing. p_configuration is the template as JSON, with dependencies as names; p_machine its states, transitions, roles and retryable states, taken from the template if null, and the built-in ones if that has none. A changed lifecycle, and cancelled_steps, hold for the tasks that are there, too; everything else for new ones. Error 22023 names the mistake in it, 55000 says that tasks of this version exist and its machine would change.';
revoke all on function postrider.apply_template(jsonb, jsonb) from public;
