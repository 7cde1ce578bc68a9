create or replace function postrider.task_snapshot(p_task_uuid uuid, p_full boolean default true) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_task jsonb;
begin
    select jsonb_build_object(
               'task', case when p_full then to_jsonb(k) else jsonb_build_object('task_uuid', k.task_uuid, 'state', k.state,
                           'state_entered_at', k.state_entered_at, 'sort_key', k.sort_key, 'priority', k.priority,
                           'retry_count', k.retry_count, 'error_reason', k.error_reason, 'created_at', k.created_at,
                           'updated_at', k.updated_at) end,
               'template', jsonb_build_object('named_task_uuid', n.named_task_uuid, 'namespace_name', ns.name, 'task_name', n.name,
                           'version', n.version, 'machine', m.name))
      into v_task
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null')),
            hint = 'It may have been archived: postrider task show.';
    end if;
    if not p_full then
        return v_task;
    end if;
    return v_task || jsonb_build_object(
        'steps', (select coalesce(jsonb_agg(to_jsonb(s) - 'task_uuid' order by s.position), '[]')
                    from postrider.tasker_workflow_steps s where s.task_uuid = p_task_uuid),
        'transitions', (select coalesce(jsonb_agg(to_jsonb(r) - 'task_uuid' order by r.sort_key), '[]')
                          from postrider.tasker_task_transitions r where r.task_uuid = p_task_uuid));
end $$;
comment on function postrider.task_snapshot(uuid, boolean) is
'A task as one JSON object: task, template (names and version), steps and transitions under the names of their columns; without p_full only what identifies it. P0002 for an unknown task.';
revoke all on function postrider.task_snapshot(uuid, boolean) from public;
