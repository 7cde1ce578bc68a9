create function postrider.outbox_insert(
    p_event_ids uuid[], p_kinds text[], p_topics text[], p_keys bytea[], p_payloads bytea[], p_headers jsonb[],
    p_max_attempts integer[], p_task_uuids uuid[], p_idempotency_keys text[])
returns setof bigint language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    insert into postrider.outbox_event (event_id, kind, topic, key, payload, headers, max_attempts, task_uuid, idempotency_key)
    select i.event_id, coalesce(i.kind, 'event'), i.topic, i.key, i.payload, coalesce(i.headers, '{}'), i.max_attempts, i.task_uuid, i.idempotency_key
    from unnest(p_event_ids, p_kinds, p_topics, p_keys, p_payloads, p_headers, p_max_attempts, p_task_uuids, p_idempotency_keys)
         with ordinality as i(event_id, kind, topic, key, payload, headers, max_attempts, task_uuid, idempotency_key, place)
    order by i.place
    returning id
$$;
comment on function postrider.outbox_insert(uuid[], text[], text[], bytea[], bytea[], jsonb[], integer[], uuid[], text[]) is
'Internal. Writes events of Postrider''s own, in the order given, and returns their ids. For the functions of other rooms, which know no table of the outbox.';
revoke all on function postrider.outbox_insert(uuid[], text[], text[], bytea[], bytea[], jsonb[], integer[], uuid[], text[]) from public;
