create or replace function postrider.apply_namespace(p_name text, p_lifecycle jsonb default null, p_description text default null) returns uuid
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
        -- A misspelt state would set no limit, and no error would show it.
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
    perform postrider.access_owe('{namespace.apply}', 'namespace', array[p_name]);
    insert into postrider.tasker_task_namespaces as n (name, lifecycle, description)
    values (p_name, coalesce(p_lifecycle, '{}'), p_description)
    on conflict (name) do update
    set lifecycle = coalesce(p_lifecycle, n.lifecycle), description = coalesce(p_description, n.description), updated_at = now()
    returning n.task_namespace_uuid into v_id;
    return v_id;
end $$;
comment on function postrider.apply_namespace(text, jsonb, text) is
'Creates a namespace or changes it, and returns its id. p_lifecycle replaces the lifecycle of the namespace, p_description its description; null keeps them. Error 22023 names the mistake.';
revoke all on function postrider.apply_namespace(text, jsonb, text) from public;
