create or replace function postrider.outbox_publish_bytes(
    topic text, key bytea, payload bytea, headers jsonb default '{}',
    idempotency_key text default null, available_at timestamptz default now(), task_uuid uuid default null)
returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    new_id   uuid;
    known_id uuid;
    attempts integer;
begin
    if topic is null or topic !~ '^[a-zA-Z0-9._-]+$' or octet_length(topic) > 249 or topic in ('.', '..') then
        raise exception using errcode = '22023',
            message = format('postrider: topic %s is not a Kafka topic name', coalesce(quote_literal(left(topic, 260)), 'null')),
            hint = 'A topic is 1 to 249 letters, digits, dots, underscores and hyphens, and not "." or "..".';
    end if;
    if octet_length(payload) > postrider.outbox_max_payload_bytes() then
        raise exception using errcode = '22023',
            message = format('postrider: payload is %s bytes, the limit is %s', octet_length(payload), postrider.outbox_max_payload_bytes()),
            hint = 'Store large content elsewhere and publish a reference, or raise the limit with postrider.outbox_set_max_payload_bytes.';
    end if;
    if available_at < '0001-01-01 00:00:00+00' or available_at >= '9999-12-31 00:00:00+00' then
        raise exception using errcode = '22023',
            message = format('postrider: available_at is %s, it must be a point in time from the year 0001 to 9999-12-30', available_at),
            hint = 'Leave it out, or give now(), for an event that may go at once. An event that is never to go is not written.';
    end if;
    if headers is null then
        headers := '{}';
    elsif headers <> '{}' then
        perform postrider.outbox_check_headers(headers);
    end if;
    new_id := gen_random_uuid();
    if idempotency_key is not null then
        if octet_length(idempotency_key) not between 1 and 512 then
            raise exception using errcode = '22023',
                message = format('postrider: idempotency_key is %s bytes, it must be 1 to 512', octet_length(idempotency_key));
        end if;
        loop
            insert into postrider.outbox_idempotency_key as k (topic, idempotency_key, event_id)
                values (topic, idempotency_key, new_id) on conflict do nothing;
            exit when found;
            -- Somebody was first: theirs is the event. None there any more: it was just purged, try again.
            select k.event_id into known_id from postrider.outbox_idempotency_key k
                where k.topic = outbox_publish_bytes.topic and k.idempotency_key = outbox_publish_bytes.idempotency_key;
            if found then
                return known_id;
            end if;
        end loop;
    end if;
    -- Where there are tasks, the task says after how many attempts its events are given up.
    if task_uuid is not null and to_regprocedure('postrider.task_max_attempts(uuid)') is not null then
        attempts := postrider.task_max_attempts(task_uuid);
    end if;
    insert into postrider.outbox_event (event_id, topic, key, payload, headers, max_attempts, available_at, task_uuid, idempotency_key)
        values (new_id, topic, key, payload, headers, attempts, coalesce(available_at, now()), task_uuid, idempotency_key);
    return new_id;
end $$;
comment on function postrider.outbox_publish_bytes(text, bytea, bytea, jsonb, text, timestamptz, uuid) is
'Writes an event with exact key and payload bytes, to be published when the calling transaction commits; returns its event id. A repeated idempotency_key of the topic returns the first event''s id and writes nothing. An event of a task (task_uuid) is given up after the max_retries of the task''s template, where that has one.';
revoke all on function postrider.outbox_publish_bytes(text, bytea, bytea, jsonb, text, timestamptz, uuid) from public;

create or replace function postrider.outbox_publish_bytes(
    topic text, key text, payload bytea, headers jsonb default '{}',
    idempotency_key text default null, available_at timestamptz default now(), task_uuid uuid default null)
returns uuid language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select postrider.outbox_publish_bytes(topic, convert_to(key, 'UTF8'), payload, headers, idempotency_key, available_at, task_uuid)
$$;
comment on function postrider.outbox_publish_bytes(text, text, bytea, jsonb, text, timestamptz, uuid) is
'The same with a text key, sent as UTF-8.';
revoke all on function postrider.outbox_publish_bytes(text, text, bytea, jsonb, text, timestamptz, uuid) from public;
