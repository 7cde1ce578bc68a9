create or replace function postrider.outbox_publish_bytes(
    topic text, key bytea, payload bytea, headers jsonb default '{}',
    idempotency_key text default null, available_at timestamptz default null, task_uuid uuid default null)
returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    new_id   uuid;
    known_id uuid;
    attempts integer;
begin
    -- The domain of the column says the same, without a word about the name and what would do.
    if topic !~ '^[a-zA-Z0-9._-]+$' or octet_length(topic) > 249 or topic in ('.', '..') or starts_with(topic, '__') then
        raise exception using errcode = '23514', message = format('postrider: topic %s is not the name of a Kafka topic for events', quote_literal(left(topic, 100))),
            constraint = case when starts_with(topic, '__') then 'outbox_event_topic_not_internal' else 'outbox_event_topic_valid' end,
            hint = 'Pass a name of 1 to 249 letters, digits, dots, underscores and hyphens. "." and ".." are no names, and names that begin with two underscores are Kafka''s own.';
    end if;
    if headers is null then
        headers := '{}';
    elsif headers <> '{}' then
        perform postrider.outbox_check_headers(headers);
    end if;
    if exists (select from postrider.outbox_own_topic o where o.topic = outbox_publish_bytes.topic) then
        raise exception using errcode = '22023', message = format('postrider: topic %s is one that Postrider itself writes',
            outbox_publish_bytes.topic),
            hint = 'Services write to topics of their own.';
    end if;
    if task_uuid is not null then
        attempts := postrider.outbox_task_attempts(task_uuid);
    end if;
    if idempotency_key is null then
        insert into postrider.outbox_event (topic, key, payload, headers, max_attempts, available_at, task_uuid)
            values (outbox_publish_bytes.topic, outbox_publish_bytes.key, outbox_publish_bytes.payload, outbox_publish_bytes.headers, attempts,
                    outbox_publish_bytes.available_at, outbox_publish_bytes.task_uuid)
            returning event_id into new_id;
        return new_id;
    end if;
    if octet_length(idempotency_key) not between 1 and 512 then
        raise exception using errcode = '22023',
            message = format('postrider: idempotency_key is %s bytes, it must be 1 to 512', octet_length(outbox_publish_bytes.idempotency_key));
    end if;
    new_id := postrider.outbox_event_id();
    loop
        insert into postrider.outbox_idempotency_key (topic, idempotency_key, event_id)
            values (outbox_publish_bytes.topic, outbox_publish_bytes.idempotency_key, new_id) on conflict do nothing;
        exit when found;
        -- Another transaction was first: its event is the one. If its key was just removed, try again.
        select k.event_id into known_id from postrider.outbox_idempotency_key k
            where k.topic = outbox_publish_bytes.topic and k.idempotency_key = outbox_publish_bytes.idempotency_key;
        if found then
            return known_id;
        end if;
    end loop;
    insert into postrider.outbox_event (event_id, topic, key, payload, headers, max_attempts, available_at, task_uuid, idempotency_key)
        values (new_id, outbox_publish_bytes.topic, outbox_publish_bytes.key, outbox_publish_bytes.payload, outbox_publish_bytes.headers, attempts,
                outbox_publish_bytes.available_at, outbox_publish_bytes.task_uuid, outbox_publish_bytes.idempotency_key);
    return new_id;
end $$;
comment on function postrider.outbox_publish_bytes(text, bytea, bytea, jsonb, text, timestamptz, uuid) is
'Writes an event with exact key and payload bytes, to be published when the calling transaction commits; returns its event id. A repeated idempotency_key of the topic returns the first event''s id and writes nothing. An event of a task (task_uuid) is given up after the max_retries of the task''s template, where that has one. Topics that Postrider itself writes are refused.';
revoke all on function postrider.outbox_publish_bytes(text, bytea, bytea, jsonb, text, timestamptz, uuid) from public;

create or replace function postrider.outbox_publish_bytes(
    topic text, key text, payload bytea, headers jsonb default '{}',
    idempotency_key text default null, available_at timestamptz default null, task_uuid uuid default null)
returns uuid language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select postrider.outbox_publish_bytes(topic, convert_to(key, 'UTF8'), payload, headers, idempotency_key, available_at, task_uuid)
$$;
comment on function postrider.outbox_publish_bytes(text, text, bytea, jsonb, text, timestamptz, uuid) is
'The same with a text key, sent as UTF-8.';
revoke all on function postrider.outbox_publish_bytes(text, text, bytea, jsonb, text, timestamptz, uuid) from public;
