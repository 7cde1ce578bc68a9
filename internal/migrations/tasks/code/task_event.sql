create or replace function postrider.task_event(p_task_uuid uuid, p_type text, p_data jsonb) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t         record;
    v_id      uuid := postrider.outbox_event_id();
    v_data    jsonb;
    v_payload bytea;
    v_limit   integer := least(900000, postrider.outbox_max_payload_bytes());
begin
    select n.name as template, n.version, ns.name as namespace, n.configuration->'events'->>'topic' as topic, s.lifecycle_topic
      into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
      join postrider.tasker_settings s on s.only_row
     where k.task_uuid = p_task_uuid;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null'));
    end if;
    v_data := jsonb_build_object('task_uuid', p_task_uuid, 'namespace_name', t.namespace, 'task_name', t.template,
                                 'version', t.version, 'occurred_at', clock_timestamp()) || coalesce(p_data, '{}');
    v_payload := convert_to(v_data::text, 'UTF8');
    if octet_length(v_payload) > v_limit then
        v_payload := convert_to(postrider.task_event_cut(v_data, v_limit)::text, 'UTF8');
    end if;
    perform postrider.outbox_insert(array[v_id], array['task'], array[coalesce(t.topic, t.lifecycle_topic)],
        array[convert_to(p_task_uuid::text, 'UTF8')], array[v_payload],
        array[postrider.task_event_headers(v_id, 'postrider.task.' || p_type || '.v1', t.namespace, t.template, p_task_uuid,
                                           (v_data->>'occurred_at')::timestamptz)]);
    return v_id;
end $$;
comment on function postrider.task_event(uuid, text, jsonb) is
'Internal. Writes a lifecycle event of a task into the outbox, in CloudEvents'' binary form, and returns its id. p_type is the last word of its type before the version, for example transitioned; p_data is added to the fields that identify the task. Under 900 kB: a larger event is cut and says what it leaves out, see task_event_cut. The caller holds the task''s row lock. P0002 for an unknown task.';
revoke all on function postrider.task_event(uuid, text, jsonb) from public;
