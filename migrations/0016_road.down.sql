create or replace function postrider.outbox_skip(event bigint, reason text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    e record;
begin
    if coalesce(reason, '') = '' then
        raise exception using errcode = '22023', message = 'postrider: reason is empty, it goes into the dead letter';
    end if;
    select * into e from postrider.outbox_operate(event);
    if e.state not in ('pending', 'parked', 'scheduled') then
        raise exception using errcode = '55000', message = format('postrider: event %s cannot be skipped', event),
            detail = format('it is %s, only one that waits can be skipped', e.state);
    end if;
    update postrider.outbox_event o
    set state = 'exhausted', hold_id = null, episode = o.episode + 1, next_attempt_at = null, updated_at = now(),
        first_error_at = coalesce(o.first_error_at, statement_timestamp()), last_error_at = statement_timestamp(),
        last_error_class = 'permanent', last_error_code = 'SKIPPED', last_error = 'skipped by hand: ' || reason
    where o.id = event;
    -- The next one of the key need not wait for the retry of this one; where the key waited for this one alone,
    -- all of it goes on.
    if e.about and e.cause = 'redrive' then
        perform postrider.outbox_release(e.hold_id);
    elsif e.about then
        update postrider.outbox_hold h set next_probe_at = clock_timestamp() where h.hold_id = e.hold_id and h.next_probe_at <> 'infinity';
    end if;
end $$;

create or replace function postrider.dlq_event_closed(event_id uuid, episode integer) returns boolean
language sql stable parallel safe set search_path = pg_catalog, pg_temp as $$
    select exists (select from postrider.dlq_letter l
                   where l.letter_id = 'event:' || dlq_event_closed.event_id || ':' || dlq_event_closed.episode)
       and not exists (select from postrider.dlq_entry e
                       where e.subject_type = 'event' and e.subject_id = dlq_event_closed.event_id::text
                         and e.resolution_status = 'pending')
$$;
comment on function postrider.dlq_event_closed(uuid, integer) is
'Whether nobody needs the outbox row of a dead-lettered event any more: the dead letter of this episode is recorded, and no investigation of the event is pending. False when in doubt. This is how the purge of outbox events asks without knowing the tables of investigations.';
drop index postrider.dlq_letter_of_task;
create or replace function postrider.outbox_publish_bytes(
    topic text, key bytea, payload bytea, headers jsonb default '{}',
    idempotency_key text default null, available_at timestamptz default now(), task_uuid uuid default null)
returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    new_id   uuid;
    known_id uuid;
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
    insert into postrider.outbox_event (event_id, topic, key, payload, headers, available_at, task_uuid, idempotency_key)
        values (new_id, topic, key, payload, headers, coalesce(available_at, now()), task_uuid, idempotency_key);
    return new_id;
end $$;
comment on function postrider.outbox_publish_bytes(text, bytea, bytea, jsonb, text, timestamptz, uuid) is
'Writes an event with exact key and payload bytes, to be published when the calling transaction commits; returns its event id. A repeated idempotency_key of the topic returns the first event''s id and writes nothing.';
drop function postrider.read_task(uuid);
drop function postrider.archive_on_read(uuid, interval);
drop function postrider.dead_letter_task(uuid, text, text);
drop function postrider.retry_task(uuid, text);
drop function postrider.task_events_catch_up(integer);
drop function postrider.task_events_dead_lettered(bigint[]);
drop function postrider.task_event_undelivered(uuid, uuid, text, integer, text, text, text, timestamptz);
drop function postrider.task_state_kind(integer, text);
drop table postrider.tasker_undelivered_events;
