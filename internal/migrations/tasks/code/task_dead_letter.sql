create or replace function postrider.task_dead_letter(p_task_uuid uuid, p_reason postrider.dlq_reason, p_original_state text, p_sort_key integer,
    p_error_code text, p_error_message text, p_metadata jsonb default null)
returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t         record;
    v_id      uuid := postrider.outbox_event_id();
    v_letter  text := format('task:%s:%s:%s', p_task_uuid, p_sort_key, p_reason);
    v_now     timestamptz := clock_timestamp();
    v_limit   integer := least(900000, postrider.outbox_max_payload_bytes());
    v_body    jsonb;
    v_payload bytea;
begin
    select n.name as template, n.version, ns.name as namespace, s.dlq_topic, s.include_full_task_snapshot as whole, k.dead_letters into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
      join postrider.tasker_settings s on s.only_row
     where k.task_uuid = p_task_uuid
       for update of k;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null'));
    end if;
    -- The task itself says which letters were written of it, and not the outbox's idempotency keys: the keys are forgotten,
    -- are of one topic, and another writer may have used the same.
    if v_letter = any (t.dead_letters) then
        return null;
    end if;
    update postrider.tasker_tasks k set dead_letters = k.dead_letters || v_letter where k.task_uuid = p_task_uuid;
    insert into postrider.tasker_letter (letter_id, task_uuid) values (v_letter, p_task_uuid) on conflict do nothing;
    insert into postrider.tasker_task_counts (kind, state, outcome, tasks) values ('dead_letter', p_original_state, p_reason, 1);
    v_body := jsonb_build_object('letter_id', v_letter, 'task_uuid', p_task_uuid, 'namespace_name', t.namespace, 'task_name', t.template,
        'version', t.version, 'dlq_reason', p_reason, 'original_state', p_original_state, 'dead_lettered_at', v_now,
        'error_code', left(p_error_code, 200), 'error_message', left(p_error_message, 10000), 'metadata', p_metadata,
        'snapshot', postrider.task_snapshot(p_task_uuid, t.whole));
    v_payload := convert_to(v_body::text, 'UTF8');
    if octet_length(v_payload) > v_limit then
        v_payload := postrider.task_letter_payload(v_body, v_limit);
    end if;
    perform postrider.outbox_insert(array[v_id], array['task'], array[t.dlq_topic], array[convert_to(p_task_uuid::text, 'UTF8')], array[v_payload],
        array[postrider.task_letter_headers(v_id, v_letter, t.namespace, t.template, p_task_uuid, v_now)], null, null, array[v_letter]);
    return v_id;
end $$;
comment on function postrider.task_dead_letter(uuid, postrider.dlq_reason, text, integer, text, text, jsonb) is
'Internal. Writes a task''s dead letter, with its snapshot, into the outbox, bound for the dead-letter topic, and returns its event id. One letter per stay (p_sort_key is the number of the transition by which the stay in p_original_state began) and reason: null if that one was written before. The detector adds stay_from to the id where the clock of the stay was restarted. Under 900 kB: a larger snapshot is cut, and the letter says what it leaves out.';
revoke all on function postrider.task_dead_letter(uuid, postrider.dlq_reason, text, integer, text, text, jsonb) from public;
