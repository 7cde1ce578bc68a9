-- The outbox: events waiting for Kafka, the shards that keep their order, the holds that keep
-- out of the way what cannot go now, and the functions that services write through.

create type postrider.outbox_state as enum (
    'pending', 'scheduled', 'parked', 'exhausted', 'published', 'dead_lettered');
comment on type postrider.outbox_state is
'Where an outbox event stands: pending (the relay may claim it), scheduled (waits for next_attempt_at), parked (waits for a hold on its key or topic), exhausted (given up, on its way to the dead-letter topic, never again to its own topic), published (acknowledged by its topic), dead_lettered (acknowledged by the dead-letter topic).';

create function postrider.outbox_max_payload_bytes() returns integer
language sql immutable parallel safe as 'select 16777216';
comment on function postrider.outbox_max_payload_bytes() is
'The largest payload, in bytes, that outbox_event accepts. 16777216 (16 MiB) unless outbox_set_max_payload_bytes changed it.';

create table postrider.outbox_event (
    id              bigint generated always as identity primary key,
    event_id        uuid not null default gen_random_uuid(),
    kind            text not null default 'event',
    topic           text not null,
    key             bytea,
    payload         bytea,
    headers         jsonb not null default '{}',
    state           postrider.outbox_state not null default 'pending',
    shard           smallint not null generated always as (
                        case when key is null then (id & 63)::smallint
                             else (get_byte(sha256(replace(topic, '\', '/')::bytea || '\x00'::bytea || key), 0) & 63)::smallint
                        end) stored,
    attempts        integer not null default 0,
    max_attempts    integer,
    episode         integer not null default 0,
    created_at      timestamptz not null default clock_timestamp(),
    available_at    timestamptz not null default now(),
    next_attempt_at timestamptz,
    sent_at         timestamptz,
    first_error_at  timestamptz,
    last_error_at   timestamptz,
    last_error_class text,
    last_error_code text,
    last_error      text,
    updated_at      timestamptz,
    hold_id         bigint,
    task_uuid       uuid,
    idempotency_key text,
    constraint outbox_event_topic_valid
        -- Not {1,249}: a bounded repeat makes the expression twenty times as slow, at every write.
        check (topic ~ '^[a-zA-Z0-9._-]+$' and octet_length(topic) <= 249 and topic <> '.' and topic <> '..'),
    constraint outbox_event_headers_shape
        check (jsonb_typeof(headers) in ('object', 'array')),
    -- Asked at the insert only: at later changes updated_at is set. Otherwise a limit that was lowered
    -- meanwhile would keep the relay from settling what is there.
    constraint outbox_event_payload_size
        check (updated_at is not null or octet_length(payload) <= 16777216),
    -- Writers meet this one, so its name says what was wrong.
    constraint outbox_event_available_at_range
        check (available_at >= '0001-01-01 00:00:00+00' and available_at < '9999-12-31 00:00:00+00'),
    -- One expression: each constraint costs every write a few microseconds.
    constraint outbox_event_consistent check (
        kind in ('event', 'task') and isfinite(created_at)
        and coalesce(max_attempts, 1) > 0 and (state = 'parked') = (hold_id is not null)
        and (state <> 'scheduled' or next_attempt_at is not null))
);
comment on table postrider.outbox_event is
'Events that services wrote in their own transactions and that the relay carries to Kafka. Whoever changes a waiting event takes the lock of its shard in outbox_shard first.';
comment on column postrider.outbox_event.id is 'Insertion order; per topic and key, events reach Kafka in the order of id.';
comment on column postrider.outbox_event.event_id is 'The identity of the event, sent as the Kafka header postrider-event-id with every copy.';
comment on column postrider.outbox_event.kind is 'event or task: what the payload is about.';
comment on column postrider.outbox_event.topic is 'Kafka topic: 1 to 249 of letters, digits, dot, underscore, hyphen.';
comment on column postrider.outbox_event.key is 'Kafka key, exact bytes. Null means no key, and no order.';
comment on column postrider.outbox_event.payload is 'Kafka value, exact bytes. Null is a tombstone and differs from an empty value.';
comment on column postrider.outbox_event.headers is 'Kafka headers: an object {name: value}, or an array of [name, value] pairs where order or repeats matter. A value is a string, {"base64": "…"} for bytes, or null.';
comment on column postrider.outbox_event.state is 'See the type outbox_state.';
comment on column postrider.outbox_event.shard is 'Unit of order and of parallelism: hash of topic and key (of the id where the key is null), 0 to 63, computed by the database so that every writer agrees.';
comment on column postrider.outbox_event.attempts is 'Failed attempts that were the event''s own fault; outages spend none.';
comment on column postrider.outbox_event.max_attempts is 'Attempts before the event is given up; null takes the relay''s setting.';
comment on column postrider.outbox_event.episode is 'How many times this event was given up; with event_id it names a dead letter.';
comment on column postrider.outbox_event.created_at is 'When the row was inserted (not when its transaction began).';
comment on column postrider.outbox_event.available_at is 'Not before this time, from the year 0001 to 9999-12-30: what lies outside, infinity and -infinity are refused. Undelayed later events of the key may overtake a delayed one.';
comment on constraint outbox_event_available_at_range on postrider.outbox_event is 'An event that is never to go is not written: infinity would be an event that waits for ever and that nobody looks for. Years outside of 0001 to 9999 RFC 3339 cannot say, and so no JSON. -infinity says nothing that now() does not.';
comment on column postrider.outbox_event.next_attempt_at is 'When a scheduled event becomes pending again.';
comment on column postrider.outbox_event.sent_at is 'When its own topic (published) or the dead-letter topic (dead_lettered) acknowledged it.';
comment on column postrider.outbox_event.first_error_at is 'When the first attempt failed.';
comment on column postrider.outbox_event.last_error_at is 'When the last attempt failed.';
comment on column postrider.outbox_event.last_error_class is 'Class of the last failure: record (tried again until the attempts are spent) or permanent (can never be delivered as it is).';
comment on column postrider.outbox_event.last_error_code is 'Code of the last failure, for example MESSAGE_TOO_LARGE.';
comment on column postrider.outbox_event.last_error is 'Message of the last failure.';
comment on column postrider.outbox_event.updated_at is 'When the relay or an operator last changed the row; null until then.';
comment on column postrider.outbox_event.hold_id is 'The hold that keeps a parked event back.';
comment on column postrider.outbox_event.task_uuid is 'The task this event belongs to, if any.';
comment on column postrider.outbox_event.idempotency_key is 'The key under which outbox_publish accepted the event; the table outbox_idempotency_key is what enforces it. Of a task''s dead letter its letter_id, which tasker_tasks.dead_letters keeps unique.';

-- Hot table of short-lived states: vacuum by count rather than by share of the table.
alter table postrider.outbox_event set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 100000);

create index outbox_event_claim on postrider.outbox_event (shard, id) where state = 'pending';
comment on index postrider.outbox_event_claim is 'What the relay claims from: pending events in order, per shard.';
create index outbox_event_scheduled on postrider.outbox_event (shard, next_attempt_at) where state = 'scheduled';
comment on index postrider.outbox_event_scheduled is 'Delayed events by the time they become due.';
create index outbox_event_parked on postrider.outbox_event (hold_id, shard, id) where state = 'parked';
comment on index postrider.outbox_event_parked is 'Events behind a hold, in the order in which they come back.';
create index outbox_event_exhausted on postrider.outbox_event (id) where state = 'exhausted';
comment on index postrider.outbox_event_exhausted is 'Events on their way to the dead-letter topic.';
create index outbox_event_given_up on postrider.outbox_event (event_id) where state in ('exhausted', 'dead_lettered');
comment on index postrider.outbox_event_given_up is 'Finds the row behind a dead letter.';

create table postrider.outbox_shard (
    shard     smallint primary key check (shard between 0 and 63),
    low_water bigint not null default 0,
    epoch     bigint not null default 1 check (epoch <> 0)
);
comment on table postrider.outbox_shard is
'One row per shard. Its row lock is the claim: the relay that holds it owns the shard''s events until it commits, and a crash releases them at once.';
comment on column postrider.outbox_shard.shard is '0 to 63; see outbox_event.shard.';
comment on column postrider.outbox_shard.low_water is 'No event of this shard up to this id is pending or can still become visible as pending, so claims start after it instead of walking over the index entries of rows that are long gone. Whoever makes an older event pending lowers it and ends the epoch, under the shard''s lock.';
comment on column postrider.outbox_shard.epoch is 'How often an older event of this shard became pending; negative from then until the mark rises again. Marks that a relay knows of the same positive epoch hold as well as low_water, and need no write.';
insert into postrider.outbox_shard (shard) select generate_series(0, 63);

create table postrider.outbox_hold (
    hold_id       bigint generated always as identity primary key,
    scope         text not null check (scope in ('key', 'topic', 'dead_letter')),
    topic         text not null,
    key           bytea,
    cause         text not null check (cause in ('retry', 'infrastructure', 'route')),
    error_code    text,
    error         text,
    event_id      uuid,
    held_at       timestamptz not null default now(),
    next_probe_at timestamptz not null,
    probes        integer not null default 0,
    draining      boolean not null default false,
    constraint outbox_hold_key_named check ((scope = 'key') = (key is not null))
);
comment on table postrider.outbox_hold is
'What cannot go to Kafka now: a key (an event of it waits for its retry), a topic (it is missing, refused or its brokers are away), or the dead letters bound for a dead-letter topic. Events met under a hold are parked and come back in order when it ends.';
comment on column postrider.outbox_hold.hold_id is 'Identity, referred to by outbox_event.hold_id.';
comment on column postrider.outbox_hold.scope is 'key: one key of a topic. topic: a whole topic. dead_letter: exhausted events bound for this dead-letter topic.';
comment on column postrider.outbox_hold.topic is 'The topic that is held, or that the held key belongs to.';
comment on column postrider.outbox_hold.key is 'The held key; null for the other scopes.';
comment on column postrider.outbox_hold.cause is 'retry: a failed event waits for its next attempt. infrastructure: brokers, leaders or replicas away. route: topic missing or not authorised.';
comment on column postrider.outbox_hold.error_code is 'Code of the failure that caused or last renewed the hold.';
comment on column postrider.outbox_hold.error is 'Its message.';
comment on column postrider.outbox_hold.event_id is 'The event whose failure caused the hold.';
comment on column postrider.outbox_hold.held_at is 'Since when.';
comment on column postrider.outbox_hold.next_probe_at is 'When the next event is let through to see whether the cause is gone.';
comment on column postrider.outbox_hold.probes is 'How often probing failed; the pause between probes grows with it.';
comment on column postrider.outbox_hold.draining is 'A probe got through: parked events are coming back in order.';
create unique index outbox_hold_subject on postrider.outbox_hold (topic, scope, coalesce(sha256(key), ''::bytea));
comment on index postrider.outbox_hold_subject is 'One hold per key, topic or dead-letter topic. Hashed, because a key may be longer than an index entry can be.';

create index outbox_hold_topics on postrider.outbox_hold (topic) where scope = 'topic';
comment on index postrider.outbox_hold_topics is 'Topic holds, which every claim must respect.';
create index outbox_hold_probe on postrider.outbox_hold (next_probe_at);
comment on index postrider.outbox_hold_probe is 'Holds that are due for a probe or draining.';

create table postrider.outbox_hold_shard (
    hold_id          bigint not null references postrider.outbox_hold on delete cascade,
    shard            smallint not null references postrider.outbox_shard,
    returned_through bigint not null default 0,
    primary key (hold_id, shard)
);
comment on table postrider.outbox_hold_shard is
'The shards in which a hold has parked events. A row goes, under the lock of its shard, in the transaction that returns the last of them; a hold ends when its last row is gone.';
comment on column postrider.outbox_hold_shard.hold_id is 'The hold.';
comment on column postrider.outbox_hold_shard.shard is 'The shard.';
comment on column postrider.outbox_hold_shard.returned_through is 'Events of this shard up to this id were let through; later ones are still parked when met.';
create index outbox_hold_shard_by_shard on postrider.outbox_hold_shard (shard);
comment on index postrider.outbox_hold_shard_by_shard is 'The holds that a claim of these shards must respect.';

create unlogged table postrider.outbox_batch (
    batch_id   bigint generated always as identity primary key,
    worker     text not null,
    shards     smallint[] not null,
    first_id   bigint not null,
    last_id    bigint not null,
    events     integer not null,
    crashes    integer not null default 0,
    claimed_at timestamptz not null default now()
);
comment on table postrider.outbox_batch is
'Batches in flight: who works on what, committed beside the claim so that others see it. A row whose shards somebody else could lock belongs to a worker that died. Unlogged: after a crash of the database nobody works on anything.';
comment on column postrider.outbox_batch.batch_id is 'Identity of the batch, in the order of time. Claims look at those behind the last that they know to be gone: beside a long snapshot the dead rows of all batches since stay here.';
comment on column postrider.outbox_batch.worker is 'Stable id of the worker: host, process id, a uuid, worker number. Empty when it gave the batch back and what workers died over is not settled yet.';
comment on column postrider.outbox_batch.shards is 'The shards whose locks the batch holds.';
comment on column postrider.outbox_batch.first_id is 'Smallest id of the batch.';
comment on column postrider.outbox_batch.last_id is 'Largest id of the batch.';
comment on column postrider.outbox_batch.events is 'Number of events.';
comment on column postrider.outbox_batch.crashes is 'How many batches over these events ended with the death of their worker; from three on they are tried one at a time.';
comment on column postrider.outbox_batch.claimed_at is 'When the batch was claimed.';

create table postrider.outbox_idempotency_key (
    topic           text not null,
    idempotency_key text not null,
    event_id        uuid not null,
    created_at      timestamptz not null default now(),
    primary key (topic, idempotency_key)
);
comment on table postrider.outbox_idempotency_key is
'Idempotency keys of outbox_publish, apart from the events so that removing events does not forget them.';
comment on column postrider.outbox_idempotency_key.topic is 'The topic of the event: each topic has its own keys, so that services cannot take each other''s.';
comment on column postrider.outbox_idempotency_key.idempotency_key is 'The key the writer gave; at most 512 bytes.';
comment on column postrider.outbox_idempotency_key.event_id is 'The event that the first call with this key wrote.';
comment on column postrider.outbox_idempotency_key.created_at is 'When the key was first used.';

create function postrider.outbox_set_max_payload_bytes(bytes integer) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    if bytes is null or bytes < 1 or bytes > 1000000000 then
        raise exception using errcode = '22023',
            message = format('postrider: bytes is %s, it must be between 1 and 1000000000', coalesce(bytes::text, 'null'));
    end if;
    alter table postrider.outbox_event drop constraint outbox_event_payload_size;
    execute format('alter table postrider.outbox_event add constraint outbox_event_payload_size
                    check (updated_at is not null or octet_length(payload) <= %s) not valid', bytes);
    execute format('create or replace function postrider.outbox_max_payload_bytes() returns integer language sql immutable parallel safe as %L',
                   'select ' || bytes);
end $$;
comment on function postrider.outbox_set_max_payload_bytes(integer) is
'Changes the largest payload, in bytes, that outbox_event accepts from now on; rows already there stay. For the owner of the schema. Where there are tasks it should not be below 8192: an event about one is made no smaller than that, and a task whose event does not fit cannot change.';

create function postrider.outbox_check_headers(headers jsonb) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    pairs jsonb;
    pair  jsonb;
    bad   text;
begin
    if jsonb_typeof(headers) = 'object' then
        select jsonb_agg(jsonb_build_array(h.key, h.value)) into pairs from jsonb_each(headers) h;
    elsif jsonb_typeof(headers) = 'array' then
        pairs := headers;
    else
        bad := 'must be an object or an array of [name, value] pairs, not a ' || coalesce(jsonb_typeof(headers), 'null');
    end if;
    for pair in select jsonb_array_elements(pairs) loop
        exit when bad is not null;
        if jsonb_typeof(pair) <> 'array' or jsonb_array_length(pair) <> 2 or jsonb_typeof(pair->0) <> 'string' then
            bad := format('has the element %s where a pair [name, value] is expected', left(pair::text, 100));
        elsif pair->>0 = '' then
            bad := 'has an empty name';
        elsif lower(pair->>0) like 'postrider-%' then
            bad := format('has the name %s, but names beginning with postrider- are the relay''s own', quote_literal(pair->>0));
        elsif jsonb_typeof(pair->1) = 'object' then
            begin
                if (select count(*) from jsonb_object_keys(pair->1)) <> 1 or jsonb_typeof(pair->1->'base64') is distinct from 'string' then
                    bad := format('value of %s must be a string, null, or {"base64": "…"}', quote_literal(pair->>0));
                else
                    perform decode(pair->1->>'base64', 'base64');
                end if;
            exception when invalid_parameter_value then
                bad := format('value of %s is not valid base64', quote_literal(pair->>0));
            end;
        elsif jsonb_typeof(pair->1) not in ('string', 'null') then
            bad := format('value of %s is a %s; it must be a string, null, or {"base64": "…"}', quote_literal(pair->>0), jsonb_typeof(pair->1));
        end if;
    end loop;
    if bad is not null then
        raise exception using errcode = '22023', message = 'postrider: headers ' || bad;
    end if;
end $$;
comment on function postrider.outbox_check_headers(jsonb) is
'Raises an error that names the fault when headers are not what outbox_event.headers describes.';

-- There are no tasks yet: 0016 puts the answer in.
create function postrider.task_max_attempts(p_task_uuid uuid) returns integer
language sql stable set search_path = pg_catalog, pg_temp as 'select null::integer';
comment on function postrider.task_max_attempts(uuid) is
'Internal. After how many attempts an event of this task is given up; null takes the relay''s setting. This is how writing an event asks without knowing the tables of tasks.';
revoke all on function postrider.task_max_attempts(uuid) from public;

create function postrider.outbox_publish_bytes(
    topic text, key bytea, payload bytea, headers jsonb default '{}',
    idempotency_key text default null, available_at timestamptz default now(), task_uuid uuid default null)
returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
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
    insert into postrider.outbox_event (event_id, topic, key, payload, headers, max_attempts, available_at, task_uuid, idempotency_key)
        values (new_id, topic, key, payload, headers, case when task_uuid is not null then postrider.task_max_attempts(task_uuid) end,
                coalesce(available_at, now()), task_uuid, idempotency_key);
    return new_id;
end $$;
comment on function postrider.outbox_publish_bytes(text, bytea, bytea, jsonb, text, timestamptz, uuid) is
'Writes an event with exact key and payload bytes, to be published when the calling transaction commits; returns its event id. A repeated idempotency_key of the topic returns the first event''s id and writes nothing. An event of a task (task_uuid) is given up after the max_retries of the task''s template, where that has one.';

create function postrider.outbox_publish_bytes(
    topic text, key text, payload bytea, headers jsonb default '{}',
    idempotency_key text default null, available_at timestamptz default now(), task_uuid uuid default null)
returns uuid language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select postrider.outbox_publish_bytes(topic, convert_to(key, 'UTF8'), payload, headers, idempotency_key, available_at, task_uuid)
$$;
comment on function postrider.outbox_publish_bytes(text, text, bytea, jsonb, text, timestamptz, uuid) is
'The same with a text key, sent as UTF-8.';

create function postrider.outbox_publish(
    topic text, key text, payload jsonb, headers jsonb default '{}',
    idempotency_key text default null, available_at timestamptz default now(), task_uuid uuid default null)
returns uuid language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select postrider.outbox_publish_bytes(topic, convert_to(key, 'UTF8'), convert_to(payload::text, 'UTF8'),
                                          headers, idempotency_key, available_at, task_uuid)
$$;
comment on function postrider.outbox_publish(text, text, jsonb, jsonb, text, timestamptz, uuid) is
'Writes a JSON event, to be published when the calling transaction commits; returns its event id. SQL null as payload is a tombstone; the JSON value null is the four bytes "null". A repeated idempotency_key of the topic returns the first event''s id and writes nothing.';

-- An exhausted event has failed, whatever its attempts: it was skipped, too old, or could never be sent.
create view postrider.v_outbox_event as
select e.id, e.event_id, e.kind, e.topic, e.key, e.shard,
       case e.state
           when 'published' then 'succeeded'
           when 'dead_lettered' then 'dead_lettered'
           when 'exhausted' then 'failed'
           else case when b.batch_id is not null then 'processing'
                     when e.attempts > 0 then 'failed'
                     else 'pending' end
       end as status,
       e.state, e.attempts, e.max_attempts, e.episode, e.last_error_class, e.last_error_code, e.last_error,
       e.created_at, e.available_at, e.next_attempt_at, e.sent_at, e.first_error_at, e.last_error_at,
       coalesce(e.updated_at, e.created_at) as updated_at,
       e.idempotency_key, e.task_uuid, e.hold_id, octet_length(e.payload) as payload_bytes,
       b.worker as locked_by, b.claimed_at as locked_at
from postrider.outbox_event e
left join lateral (
    select b.batch_id, b.worker, b.claimed_at from postrider.outbox_batch b
    where b.worker <> '' and e.state = 'pending' and e.shard = any (b.shards) and e.id between b.first_id and b.last_id
    order by b.claimed_at desc limit 1) b on true;
comment on view postrider.v_outbox_event is
'Outbox events for people: status in the words pending, processing, succeeded, failed (an attempt failed and it waits for the next, or it was given up and its dead letter is on its way), dead_lettered, the finer state beside it, and which worker holds the event since when.';

revoke all on function postrider.outbox_set_max_payload_bytes(integer) from public;
revoke all on function postrider.outbox_publish(text, text, jsonb, jsonb, text, timestamptz, uuid) from public;
revoke all on function postrider.outbox_publish_bytes(text, text, bytea, jsonb, text, timestamptz, uuid) from public;
revoke all on function postrider.outbox_publish_bytes(text, bytea, bytea, jsonb, text, timestamptz, uuid) from public;
