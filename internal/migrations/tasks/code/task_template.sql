create or replace function postrider.task_template(p_namespace text, p_name text, p_version text default null) returns uuid
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
revoke all on function postrider.task_template(text, text, text) from public;
