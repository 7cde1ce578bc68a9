create or replace function postrider.steps_set(p_task_uuid uuid, p_steps uuid[], p_status text, p_anew boolean, p_metadata jsonb) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_now      timestamptz := clock_timestamp();
    v_ids      uuid[];
    v_topics   text[];
    v_payloads bytea[];
    v_headers  jsonb[];
begin
    with step as materialized (
        select s.workflow_step_uuid, s.step_name, s.position, s.status, case when p_anew then 0 else s.retry_count end as retry_count
          from postrider.tasker_workflow_steps s
         where s.task_uuid = p_task_uuid and s.workflow_step_uuid = any (p_steps)
    ), changed as (
        update postrider.tasker_workflow_steps s
           set status = p_status, retry_count = c.retry_count, next_retry_at = null, last_error = case when not p_anew then s.last_error end,
               state_entered_at = case when s.status = p_status then s.state_entered_at else v_now end, updated_at = v_now
          from step c
         where s.task_uuid = p_task_uuid and s.workflow_step_uuid = c.workflow_step_uuid
    ), noted as (
        insert into postrider.tasker_workflow_step_transitions (task_uuid, workflow_step_uuid, from_status, to_status, metadata, created_at)
        select p_task_uuid, c.workflow_step_uuid, c.status, p_status, p_metadata, v_now from step c order by c.position
    )
    select array_agg(e.event_id order by e.position), array_agg(t.topic order by e.position),
           array_agg(convert_to(jsonb_build_object('task_uuid', p_task_uuid, 'namespace_name', t.namespace, 'task_name', t.template, 'version', t.version,
               'workflow_step_uuid', e.workflow_step_uuid, 'step_name', e.step_name, 'from_status', e.status, 'to_status', p_status,
               'retry_count', e.retry_count, 'occurred_at', v_now, 'actor', coalesce(p_metadata->>'actor', p_metadata->>'worker'),
               'reason', p_metadata->>'reason', 'metadata', p_metadata)::text, 'UTF8') order by e.position),
           array_agg(postrider.task_event_headers(e.event_id, 'postrider.task.step_transitioned.v1', t.namespace, t.template, p_task_uuid, v_now)
                     order by e.position)
      into v_ids, v_topics, v_payloads, v_headers
      from (select c.*, postrider.outbox_event_id() as event_id from step c offset 0) e
      cross join (select n.name as template, n.version, ns.name as namespace, coalesce(n.configuration->'events'->>'topic', g.lifecycle_topic) as topic
                    from postrider.tasker_tasks k
                    join postrider.tasker_named_tasks n using (named_task_uuid)
                    join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
                    join postrider.tasker_settings g on g.only_row
                   where k.task_uuid = p_task_uuid) t;
    perform postrider.outbox_insert(v_ids, array_fill('task'::text, array[coalesce(cardinality(v_ids), 0)]), v_topics,
        array_fill(convert_to(p_task_uuid::text, 'UTF8'), array[coalesce(cardinality(v_ids), 0)]), v_payloads, v_headers);
    perform postrider.task_steps_changed(p_task_uuid, v_now, false);
end $$;
comment on function postrider.steps_set(uuid, uuid[], text, boolean, jsonb) is
'Internal. What step_set does, for many steps of a task at once, in their order; none waits for a retry any more. With p_anew they have all their retries and no error. The caller holds the task''s row lock and decides whether it may.';
revoke all on function postrider.steps_set(uuid, uuid[], text, boolean, jsonb) from public;
