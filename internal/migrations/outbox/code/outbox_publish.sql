create or replace function postrider.outbox_publish(
    topic text, key text, payload jsonb, headers jsonb default '{}',
    idempotency_key text default null, available_at timestamptz default null, task_uuid uuid default null)
returns uuid language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select postrider.outbox_publish_bytes(topic, convert_to(key, 'UTF8'), convert_to(payload::text, 'UTF8'),
                                          headers, idempotency_key, available_at, task_uuid)
$$;
comment on function postrider.outbox_publish(text, text, jsonb, jsonb, text, timestamptz, uuid) is
'Writes a JSON event, to be published when the calling transaction commits; returns its event id. SQL null as payload is a tombstone; the JSON value null is the four bytes "null". A repeated idempotency_key of the topic returns the first event''s id and writes nothing.';
revoke all on function postrider.outbox_publish(text, text, jsonb, jsonb, text, timestamptz, uuid) from public;
