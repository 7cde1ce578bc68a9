create or replace function postrider.outbox_insert(
    p_event_ids uuid[], p_kinds text[], p_topics text[], p_keys bytea[], p_payloads bytea[], p_headers jsonb[],
    p_max_attempts integer[] default null, p_task_uuids uuid[] default null, p_idempotency_keys text[] default null,
    p_partitions integer[] default null, p_timestamps timestamptz[] default null)
returns setof bigint language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    return query
    insert into postrider.outbox_event as n (event_id, kind, topic, key, payload, headers, max_attempts, task_uuid, idempotency_key, partition, timestamp)
    select w.event_id, coalesce(w.kind, 'event'), w.topic, w.key, w.payload, coalesce(w.headers, '{}'), w.max_attempts, w.task_uuid, w.idempotency_key,
        w.partition, w.record_timestamp
    from unnest(p_event_ids, p_kinds, p_topics, p_keys, p_payloads, p_headers, p_max_attempts, p_task_uuids, p_idempotency_keys,
                p_partitions, p_timestamps) with ordinality
        as w(event_id, kind, topic, key, payload, headers, max_attempts, task_uuid, idempotency_key, partition, record_timestamp, place)
    order by w.place
    returning n.id;
end $$;
comment on function postrider.outbox_insert(uuid[], text[], text[], bytea[], bytea[], jsonb[], integer[], uuid[], text[], integer[], timestamptz[]) is
'Internal. Writes events in the order of the arrays, and returns their ids in that order: how the other rooms write into the outbox. A null in kinds is event, and a null in headers is none. A null array is an array of nulls. Nothing is checked but what the table checks, and idempotency_keys are kept with the events and not enforced.';
revoke all on function postrider.outbox_insert(uuid[], text[], text[], bytea[], bytea[], jsonb[], integer[], uuid[], text[], integer[], timestamptz[]) from public;
