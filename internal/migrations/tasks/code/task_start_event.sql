create or replace function postrider.task_start_event(p_task_uuid uuid) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t         record;
    v_id      uuid := postrider.outbox_event_id();
    v_data    jsonb;
    v_payload bytea;
    v_limit   integer := least(900000, postrider.outbox_max_payload_bytes());
begin
    select k.context, k.retry_count, n.name as template, n.version, ns.name as namespace,
           n.configuration->'start_event' as start_event, n.configuration->'max_retries' as max_retries
      into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
     where k.task_uuid = p_task_uuid;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null'));
    end if;
    if t.start_event->>'topic' is null then
        return null;
    end if;
    v_data := jsonb_build_object('task_uuid', p_task_uuid, 'namespace_name', t.namespace, 'task_name', t.template,
                                 'version', t.version, 'retry_count', t.retry_count, 'context', t.context);
    v_payload := convert_to(v_data::text, 'UTF8');
    if octet_length(v_payload) > v_limit then
        v_payload := convert_to(postrider.task_event_cut(v_data, v_limit)::text, 'UTF8');
    end if;
    perform postrider.outbox_insert(array[v_id], null, array[t.start_event->>'topic'], array[convert_to(p_task_uuid::text, 'UTF8')], array[v_payload],
        array[postrider.task_event_headers(v_id, coalesce(t.start_event->>'type', 'postrider.task.start.v1'), t.namespace, t.template,
                                           p_task_uuid, clock_timestamp())],
        array[case when jsonb_typeof(t.max_retries) = 'number' then greatest((t.max_retries #>> '{}')::numeric::integer, 1) end], array[p_task_uuid]);
    return v_id;
end $$;
comment on function postrider.task_start_event(uuid) is
'Internal. Writes the event that starts a task''s work, with its context and linked to it, if its template has a start_event; returns its id, null without one. It is given up after the template''s max_retries attempts. A context that would make it larger than 900 kB is left out of it, and it says so (truncated, sizes): workers read it with task_snapshot.';
revoke all on function postrider.task_start_event(uuid) from public;
