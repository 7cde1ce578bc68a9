-- The outbox's room: the log that writers append to, the receipts that say how far it was read, the exceptions
-- that did not simply go, and the holds that keep keys, partitions and topics back.

-- Domains and not CHECKs: PostgreSQL parses the text of a table's CHECKs for every statement, 8 to 10 microseconds
-- each; the rules of a domain it keeps per session. Their names are what writers meet.

create domain postrider.outbox_topic as text
    -- Not {1,249}: a bounded repeat makes the expression twenty times as slow.
    constraint outbox_event_topic_valid check (value ~ '^[a-zA-Z0-9._-]+$' and octet_length(value) <= 249 and value not in ('.', '..'))
    constraint outbox_event_topic_not_internal check (not starts_with(value, '__'));
comment on domain postrider.outbox_topic is 'A Kafka topic: 1 to 249 letters, digits, dots, underscores and hyphens, neither "." nor "..". Names beginning with two underscores are Kafka''s own and are refused.';

create domain postrider.outbox_headers as jsonb
    constraint outbox_event_headers_shape check (value = '{}'::jsonb or jsonb_typeof(value) in ('object', 'array'))
    constraint outbox_event_headers_names check (value = '{}'::jsonb
        or not jsonb_path_exists(value, 'strict $.keyvalue() ? (@.key like_regex "[\\x01-\\x1f\\x7f]")', '{}', true)
           and not jsonb_path_exists(value, 'strict $[*][0] ? (@ like_regex "[\\x01-\\x1f\\x7f]")', '{}', true));
comment on domain postrider.outbox_headers is 'Kafka headers: an object {name: value}, or an array of [name, value] pairs where order or repeats matter. A value is a string, {"base64": "…"} for bytes, or null. Names have no control characters: with them, a writer could make a consumer that bridges to HTTP send headers of the writer''s choice.';

create domain postrider.outbox_payload as bytea
    constraint outbox_event_payload_size check (octet_length(value) <= 16777216);
comment on domain postrider.outbox_payload is 'Kafka value, exact bytes. 16 MiB at most, unless outbox_set_max_payload_bytes changed it.';

create domain postrider.outbox_available_at as timestamptz
    constraint outbox_event_available_at_range check (value >= '0001-01-01 00:00:00+00' and value < '9999-12-31 00:00:00+00');
comment on domain postrider.outbox_available_at is 'From the year 0001 to 9999-12-30. An event that is never to go is not written: with infinity it would wait for ever, unnoticed. RFC 3339 cannot express other years, and so JSON cannot.';

create domain postrider.outbox_kind as text constraint outbox_event_kind_valid check (value in ('event', 'task', 'redrive'));
comment on domain postrider.outbox_kind is 'What the payload is about: event, a writer''s own; task, what Postrider itself writes about a task, which alone may go to Postrider''s own topics; redrive, a message that Postrider sends again, whose headers say what it was first sent as.';

create domain postrider.outbox_max_attempts as integer constraint outbox_event_max_attempts_positive check (value > 0);
comment on domain postrider.outbox_max_attempts is 'Attempts before an event is given up, at least 1.';

create domain postrider.outbox_partition as integer constraint outbox_event_partition_valid check (value >= 0);
comment on domain postrider.outbox_partition is 'A partition of a Kafka topic, from 0.';

create domain postrider.outbox_timestamp as timestamptz
    constraint outbox_event_timestamp_range check (value >= '1970-01-01 00:00:00+00' and value < '9999-12-31 00:00:00+00');
comment on domain postrider.outbox_timestamp is 'The timestamp of a Kafka record, which counts milliseconds from 1970. To 9999-12-30, as for available_at.';

-- A sequence, because its value belongs to no transaction: every session sees the arming at once. Arming waits for
-- no session, blocks none and leaves no dead row. Reading the value is one call of a built-in function.
create sequence postrider.outbox_notifier as bigint minvalue -9223372036854775807 start with 1;
comment on sequence postrider.outbox_notifier is
'Whether inserts into outbox_event notify. A positive value is the time, in seconds since 1970, until which an idle relay wants to be woken; a negative one, without its sign, is when a busy relay ended that, in milliseconds. Never drawn from, only set. Every writer may read it.';
grant select on sequence postrider.outbox_notifier to public;

create table postrider.outbox_event (
    id              bigint generated always as identity primary key,
    -- A UUID of version 7: it begins with the time, by which outbox_find_event finds it. So it needs no index.
    event_id        uuid not null default (lpad(to_hex((date_part('epoch', clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
                                           || substr(gen_random_uuid()::text, 16))::uuid,
    -- Notifies an idle relay, too. A trigger costs a statement of one row twice as much, and one of many rows less.
    -- PostgreSQL merges the notifications of a transaction. What pg_notify returns is never null.
    created_at      timestamptz not null default case
        when pg_sequence_last_value('postrider.outbox_notifier') > date_part('epoch', clock_timestamp())
        then case when pg_notify('postrider_outbox', '') is not null then clock_timestamp() end
        else clock_timestamp() end,
    available_at    postrider.outbox_available_at,
    max_attempts    postrider.outbox_max_attempts,
    task_uuid       uuid,
    topic           postrider.outbox_topic not null,
    key             bytea,
    payload         postrider.outbox_payload,
    headers         postrider.outbox_headers not null default '{}',
    kind            postrider.outbox_kind not null default 'event',
    idempotency_key text,
    partition       postrider.outbox_partition,
    timestamp       postrider.outbox_timestamp
);
comment on table postrider.outbox_event is
'The log: events that services wrote in their own transactions, in the order of their ids. Rows are inserted and, when they are no longer needed, deleted; nothing updates them. outbox_receipt says how far the log was read. outbox_exception has the events that did not simply go. v_outbox_event shows the whole to people.';
comment on column postrider.outbox_event.id is 'Insertion order; per topic and key, events reach Kafka in the order of id. Drawn by the database alone: a row with an id below the position would never be read.';
comment on column postrider.outbox_event.event_id is 'The identity of the event, sent as the Kafka header postrider-event-id with every copy; a redrive sends the id of the event that it sends again. A UUID of version 7: it begins with the time.';
comment on column postrider.outbox_event.created_at is 'When the row was inserted (not when its transaction began). Its default also wakes an idle relay, if one asked for that; a row that brings a time of its own is found by the next poll.';
comment on column postrider.outbox_event.available_at is 'Not before this time; null is at once. Undelayed later events of the key may overtake a delayed one.';
comment on column postrider.outbox_event.max_attempts is 'Attempts before the event is given up; null takes those of its task''s template, else the relay''s setting.';
comment on column postrider.outbox_event.task_uuid is 'The task this event belongs to, if any.';
comment on column postrider.outbox_event.topic is 'Kafka topic.';
comment on column postrider.outbox_event.key is 'Kafka key, exact bytes. Null means no key, and no order.';
comment on column postrider.outbox_event.payload is 'Kafka value, exact bytes. Null is a tombstone and differs from an empty value.';
comment on column postrider.outbox_event.headers is 'Kafka headers; see the domain outbox_headers.';
comment on column postrider.outbox_event.kind is 'event, task or redrive; see the domain outbox_kind.';
comment on column postrider.outbox_event.idempotency_key is 'The key under which outbox_publish accepted the event; the table outbox_idempotency_key is what enforces it. Of a task''s dead letter its letter_id.';
comment on column postrider.outbox_event.partition is 'Kafka partition; null leaves it to the key. An event for a partition that its topic does not have is given up.';
comment on column postrider.outbox_event.timestamp is 'Timestamp of the Kafka record, which has milliseconds; null is the time when it is sent.';

-- An append-only table is vacuumed for its visibility map and frozen once: in small pieces.
alter table postrider.outbox_event set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 1000000,
    autovacuum_freeze_min_age = 1000000);

create table postrider.outbox_task_event (
    task_uuid uuid not null,
    id        bigint not null,
    primary key (task_uuid, id)
);
comment on table postrider.outbox_task_event is
'The events of each task, written by the relay that leads when it has read them: an index on outbox_event would cost every writer. An event that the log still has before it is not here yet.';
comment on column postrider.outbox_task_event.task_uuid is 'outbox_event.task_uuid.';
comment on column postrider.outbox_task_event.id is 'outbox_event.id.';

create table postrider.outbox_receipt (
    number    bigint primary key,
    term      bigint not null,
    position  bigint not null,
    first_id  bigint,
    events    int8multirange not null default '{}',
    forgotten int8multirange not null default '{}',
    gaps      int8multirange,
    returned  int8multirange,
    trying    bigint,
    note      text constraint outbox_receipt_note check (note in ('began', 'ended', 'trying', 'moved')),
    worker    text,
    nonce     bigint,
    at        timestamptz not null default clock_timestamp()
);
comment on table postrider.outbox_receipt is
'What each settled batch leaves behind. The leader only inserts; retention removes old receipts with their events, and merges the receipts of a second. The newest says how far the log was read. Its number is one more than the last: of two relays that believe to lead, one cannot write it.';
comment on column postrider.outbox_receipt.number is 'One more than that of the receipt before.';
comment on column postrider.outbox_receipt.term is 'The leadership in which it was written. A relay that begins to lead writes a receipt of a new term first.';
comment on column postrider.outbox_receipt.position is 'The highest id disposed of: whatever is at or below it was acknowledged by its topic, has an exception, or is in a gap.';
comment on column postrider.outbox_receipt.first_id is 'The lowest id in events; null when there is none.';
comment on column postrider.outbox_receipt.events is 'The ids disposed of: acknowledged by their topics, or made exceptions in the same transaction.';
comment on column postrider.outbox_receipt.forgotten is 'Gaps that no transaction can fill any more: their transactions rolled back.';
comment on column postrider.outbox_receipt.gaps is 'The gaps after this receipt: ids below the position that were not visible and may still be committed. Null where there were many and nothing but the changes is written: then they follow from the newest receipt that has them and what came after; see outbox_progress.';
comment on column postrider.outbox_receipt.returned is 'Exceptions that their topics acknowledged; null when there are none. Their ids stand in events of the receipt that made them exceptions.';
comment on column postrider.outbox_receipt.trying is 'The event that is tried alone next, because relays died while it was on its way among others.';
comment on column postrider.outbox_receipt.note is 'began: the first of a term. ended: its leader handed over. trying: see there. moved: the position was moved by hand. Null: a batch was settled.';
comment on column postrider.outbox_receipt.worker is 'Who leads; on the first receipt of a term.';
comment on column postrider.outbox_receipt.nonce is 'The advisory lock by which the leader''s session shows that it lives; on the first receipt of a term.';
comment on column postrider.outbox_receipt.at is 'When it was written: of its events, when they were acknowledged.';
create index outbox_receipt_position on postrider.outbox_receipt (position);
comment on index postrider.outbox_receipt_position is 'Finds the receipt of an event.';
create index outbox_receipt_first on postrider.outbox_receipt (first_id) where first_id is not null;
comment on index postrider.outbox_receipt_first is 'Finds the receipts that have ids of a range, for retention.';
create index outbox_receipt_began on postrider.outbox_receipt (number) where note is not null;
comment on index postrider.outbox_receipt_began is 'Finds who leads, and how the last terms ended.';
create index outbox_receipt_returned on postrider.outbox_receipt using gist (returned) where returned is not null;
comment on index postrider.outbox_receipt_returned is 'Finds when an exception went after all.';
alter table postrider.outbox_receipt set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 200000);
insert into postrider.outbox_receipt (number, term, position, gaps) values (0, 0, 0, '{}');

create table postrider.outbox_hold (
    hold_id       bigint generated by default as identity primary key,
    scope         text not null constraint outbox_hold_scope_check check (scope in ('key', 'partition', 'topic', 'failure', 'dead_letter')),
    topic         text not null,
    key           bytea,
    partition     integer,
    partitions    integer,
    code          text,
    cause         text not null constraint outbox_hold_cause_check check (cause in ('retry', 'infrastructure', 'route', 'halted', 'redrive', 'circuit_breaker')),
    error_code    text,
    error         text,
    event_id      uuid,
    held_at       timestamptz not null default now(),
    next_probe_at timestamptz not null,
    probes        integer not null default 0,
    draining      boolean not null default false,
    asked         text constraint outbox_hold_asked check (asked in ('release', 'give_up')),
    constraint outbox_hold_subject_named check (
        (scope = 'key') = (key is not null) and (scope = 'failure') = (code is not null)
        and (scope = 'partition') = (partition is not null) and (scope = 'partition') = (partitions is not null)
        and coalesce(partition between 0 and partitions - 1, true))
);
comment on table postrider.outbox_hold is
'What cannot go to Kafka now: a key (an event of it waits for its retry, or was given up and halts the key), a partition (its leader or replicas are away), a topic (it is missing or refused), what fails in one way (a circuit breaker), or the dead letters bound for a dead-letter topic. Events met under a hold are parked and come back in order when it ends. The relay that leads alone inserts and deletes holds of events; people ask, by functions.';
comment on column postrider.outbox_hold.hold_id is 'Identity, referred to by outbox_exception.hold_id.';
comment on column postrider.outbox_hold.scope is 'key: one key of a topic. partition: one partition of a topic. topic: a whole topic. failure: a circuit breaker, events of a topic that fail with one code; everything else of the topic goes. dead_letter: exhausted events bound for this dead-letter topic.';
comment on column postrider.outbox_hold.topic is 'The topic that is held, or that the key, the partition or the failing events belong to.';
comment on column postrider.outbox_hold.key is 'The held key; null for the other scopes.';
comment on column postrider.outbox_hold.partition is 'The held partition; null for the other scopes.';
comment on column postrider.outbox_hold.partitions is 'How many partitions the topic had then: keys belong to the held partition by this number, so that none changes sides while it is held.';
comment on column postrider.outbox_hold.code is 'The code of the failures that a circuit breaker keeps; null for the other scopes.';
comment on column postrider.outbox_hold.cause is 'retry: a failed event waits for its next attempt. infrastructure: brokers, leaders or replicas away. route: topic missing or not authorised. halted: an event was given up and its key waits for an operator. redrive: that event is on its way again. circuit_breaker: too many events failed in one way, the circuit breaker is open.';
comment on column postrider.outbox_hold.error_code is 'Code of the failure that caused or last renewed the hold.';
comment on column postrider.outbox_hold.error is 'Its message.';
comment on column postrider.outbox_hold.event_id is 'The event whose failure caused the hold.';
comment on column postrider.outbox_hold.held_at is 'Since when, with this cause.';
comment on column postrider.outbox_hold.next_probe_at is 'When the next event is let through to see whether the cause is gone; with infinity, the hold waits for an operator.';
comment on column postrider.outbox_hold.probes is 'How often probing failed; the pause between probes grows with it.';
comment on column postrider.outbox_hold.draining is 'The cause is gone: parked events are coming back in order.';
comment on column postrider.outbox_hold.asked is 'What an operator asked for and the leader has not done yet. release: all events that wait come back. give_up: all events that wait are given up.';
create unique index outbox_hold_subject on postrider.outbox_hold
    (topic, scope, coalesce(sha256(key), ''::bytea), coalesce(partition, -1), coalesce(partitions, -1), coalesce(code, ''));
comment on index postrider.outbox_hold_subject is 'One hold per key, partition, topic, circuit breaker or dead-letter topic. Keys are hashed, because one may be longer than an index entry can be.';
create index outbox_hold_probe on postrider.outbox_hold (next_probe_at) where scope <> 'dead_letter';
comment on index postrider.outbox_hold_probe is 'Holds that are due for a probe.';
create index outbox_hold_draining on postrider.outbox_hold (hold_id) where draining;
comment on index postrider.outbox_hold_draining is 'Holds whose events come back.';
create index outbox_hold_asked on postrider.outbox_hold (hold_id) where asked is not null;
comment on index postrider.outbox_hold_asked is 'What the leader is asked to do.';
create index outbox_hold_event on postrider.outbox_hold (event_id) where cause in ('halted', 'redrive');
comment on index postrider.outbox_hold_event is 'The key that an event halts.';
alter table postrider.outbox_hold set (vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);

create type postrider.outbox_exception_state as enum ('scheduled', 'parked', 'exhausted', 'dead_lettered');
comment on type postrider.outbox_exception_state is
'Why an event did not simply go: scheduled (waits for next_attempt_at), parked (waits for its hold), exhausted (given up, on its way to the dead-letter topic, never again to its own unless it is redriven in its place), dead_lettered (acknowledged by the dead-letter topic).';

create table postrider.outbox_exception (
    id               bigint primary key,
    state            postrider.outbox_exception_state not null,
    hold_id          bigint references postrider.outbox_hold,
    sending_since    timestamptz,
    attempts         integer not null default 0,
    max_attempts     integer,
    episode          integer not null default 0,
    next_attempt_at  timestamptz,
    sent_at          timestamptz,
    first_error_at   timestamptz,
    last_error_at    timestamptz,
    last_error_class text,
    last_error_code  text,
    last_error       text,
    noted_at         timestamptz not null default clock_timestamp(),
    updated_at       timestamptz not null default clock_timestamp(),
    closed_at        timestamptz,
    obeyed           jsonb,
    -- Its own copy.
    copied           boolean not null default false,
    event_id         uuid not null,
    topic            text not null,
    kind             text,
    key              bytea,
    payload          bytea,
    headers          jsonb,
    task_uuid        uuid,
    idempotency_key  text,
    created_at       timestamptz,
    partition        integer,
    timestamp        timestamptz,
    constraint outbox_exception_consistent check (
        (state = 'parked') = (hold_id is not null) and (state <> 'scheduled' or next_attempt_at is not null)
        and (state not in ('exhausted', 'dead_lettered') or copied))
);
comment on table postrider.outbox_exception is
'Events that did not simply go, by outbox_event.id: what waits for a time or a hold, and what was given up. An event at or below the position that has no row here, and is in no gap, was acknowledged by its topic.';
comment on column postrider.outbox_exception.id is 'outbox_event.id.';
comment on column postrider.outbox_exception.state is 'See the type outbox_exception_state.';
comment on column postrider.outbox_exception.hold_id is 'The hold that keeps a parked event back.';
comment on column postrider.outbox_exception.sending_since is 'Since when the leader has it in hand; null while it waits. People leave it alone meanwhile.';
comment on column postrider.outbox_exception.attempts is 'Failed attempts that were the event''s own fault; outages spend none.';
comment on column postrider.outbox_exception.max_attempts is 'Attempts before it is given up, as they counted when it last failed; for one that never failed its own limit or that of its task''s template, and null where it has none.';
comment on column postrider.outbox_exception.episode is 'How many times this event was given up; with event_id it names a dead letter.';
comment on column postrider.outbox_exception.next_attempt_at is 'When a scheduled event is tried, or an exhausted one is offered to the dead-letter topic again.';
comment on column postrider.outbox_exception.sent_at is 'When the dead-letter topic acknowledged it.';
comment on column postrider.outbox_exception.first_error_at is 'When the first attempt failed.';
comment on column postrider.outbox_exception.last_error_at is 'When the last attempt failed.';
comment on column postrider.outbox_exception.last_error_class is 'Class of the last failure: record (tried again until the attempts are spent), permanent (can never be delivered as it is), or, of an event that was given up because it could not be sent for too long, infrastructure (brokers, leaders or replicas away) or route (topic missing or not authorised).';
comment on column postrider.outbox_exception.last_error_code is 'Code of the last failure, for example MESSAGE_TOO_LARGE.';
comment on column postrider.outbox_exception.last_error is 'Message of the last failure.';
comment on column postrider.outbox_exception.noted_at is 'When it became an exception.';
comment on column postrider.outbox_exception.updated_at is 'When the relay or an operator last changed it.';
comment on column postrider.outbox_exception.closed_at is 'When the desk said that the event is no longer needed, because its investigation is closed. Null until then.';
comment on column postrider.outbox_exception.obeyed is 'The commands of the desk that sent it again, each with the id of the event that carries the message: its own in its place, otherwise a new one. So none of them acts twice. Null where there was none.';
comment on column postrider.outbox_exception.copied is 'Whether kind, key, payload, headers and the columns after them are copied here. An event that was given up, or that is older than the log keeps, has the copy. Otherwise they stand in outbox_event.';
comment on column postrider.outbox_exception.event_id is 'outbox_event.event_id.';
comment on column postrider.outbox_exception.topic is 'outbox_event.topic.';
comment on column postrider.outbox_exception.kind is 'outbox_event.kind, where copied.';
comment on column postrider.outbox_exception.key is 'outbox_event.key, where copied, or as an operator edited it for a redrive.';
comment on column postrider.outbox_exception.payload is 'outbox_event.payload, where copied, or as an operator edited it for a redrive.';
comment on column postrider.outbox_exception.headers is 'outbox_event.headers, where copied, or as an operator edited them for a redrive.';
comment on column postrider.outbox_exception.task_uuid is 'outbox_event.task_uuid, where copied.';
comment on column postrider.outbox_exception.idempotency_key is 'outbox_event.idempotency_key, where copied.';
comment on column postrider.outbox_exception.created_at is 'outbox_event.created_at, where copied.';
comment on column postrider.outbox_exception.partition is 'outbox_event.partition, where copied.';
comment on column postrider.outbox_exception.timestamp is 'outbox_event.timestamp, where copied.';
create index outbox_exception_parked on postrider.outbox_exception (hold_id, id) where hold_id is not null;
comment on index postrider.outbox_exception_parked is 'What waits behind a hold, in the order in which it comes back.';
create index outbox_exception_scheduled on postrider.outbox_exception (next_attempt_at, id) where state = 'scheduled';
comment on index postrider.outbox_exception_scheduled is 'What waits for a time.';
create index outbox_exception_exhausted on postrider.outbox_exception (topic, (coalesce(next_attempt_at, '-infinity'::timestamptz)), id) where state = 'exhausted';
comment on index postrider.outbox_exception_exhausted is 'Events on their way to the dead-letter topics, by topic and by when they may go.';
create index outbox_exception_sending on postrider.outbox_exception (id) where sending_since is not null;
comment on index postrider.outbox_exception_sending is 'What the leader has in hand.';
create index outbox_exception_event on postrider.outbox_exception (event_id);
comment on index postrider.outbox_exception_event is 'Finds the event behind a dead letter.';
create index outbox_exception_task on postrider.outbox_exception (task_uuid) where task_uuid is not null;
comment on index postrider.outbox_exception_task is 'Finds what was given up of a task.';
create index outbox_exception_closed on postrider.outbox_exception (closed_at) where closed_at is not null;
comment on index postrider.outbox_exception_closed is 'What retention may remove.';
alter table postrider.outbox_exception set (vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 20000);

create table postrider.outbox_skip_request (
    id       bigint primary key,
    reason   text not null,
    asked_at timestamptz not null default clock_timestamp()
);
comment on table postrider.outbox_skip_request is
'Events that an operator wants given up and that the leader has not reached yet. It gives them up when it reaches them. An event that has gone by then has gone.';
comment on column postrider.outbox_skip_request.id is 'outbox_event.id.';
comment on column postrider.outbox_skip_request.reason is 'Why; it goes into the dead letter.';
comment on column postrider.outbox_skip_request.asked_at is 'When that was asked.';

create table postrider.outbox_idempotency_key (
    topic           text not null,
    idempotency_key text not null,
    event_id        uuid not null,
    created_at      timestamptz not null default now(),
    primary key (topic, idempotency_key)
);
comment on table postrider.outbox_idempotency_key is
'Keys under which outbox_publish accepted an event. They have a retention of their own, so that deleting events does not forget them.';
comment on column postrider.outbox_idempotency_key.topic is 'Keys are unique per topic.';
comment on column postrider.outbox_idempotency_key.idempotency_key is 'What the writer called it: 1 to 512 bytes.';
comment on column postrider.outbox_idempotency_key.event_id is 'The event that was accepted first, which repeated calls return.';
comment on column postrider.outbox_idempotency_key.created_at is 'When the key was first used; retention counts from here.';
alter table postrider.outbox_idempotency_key set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 1000000);

create table postrider.outbox_retention (
    kind       text primary key constraint outbox_retention_kind check (kind in ('published', 'dead_lettered', 'idempotency_key', 'receipt')),
    position   bigint not null default 0,
    stopped_at timestamptz,
    reason     text
);
comment on table postrider.outbox_retention is
'One row per kind of row that retention removes. A session that removes rows of a kind holds the lock on this row for one step. So only one session does it at a time, and a crash frees the lock.';
comment on column postrider.outbox_retention.kind is 'published: events of the log. dead_lettered: exceptions whose investigation is closed. idempotency_key: keys of outbox_publish. receipt: small receipts that are merged.';
comment on column postrider.outbox_retention.position is 'How far it came: the last id that was removed (published), the block of the table where the next step begins (idempotency_key), the last receipt that was looked at (receipt).';
comment on column postrider.outbox_retention.stopped_at is 'Since when nothing is removed any more, because the rows of the log did not agree with the receipts; null while all is well.';
comment on column postrider.outbox_retention.reason is 'What did not agree.';
insert into postrider.outbox_retention (kind) values ('published'), ('dead_lettered'), ('idempotency_key'), ('receipt');

create table postrider.outbox_own_topic (
    topic text primary key,
    use   text not null
);
comment on table postrider.outbox_own_topic is
'The topics that Postrider itself writes: dead-letter topics, lifecycle events, retry topics. An event that a service writes to one of them is refused by the functions, and given up by the relay. serve writes what its settings say.';
comment on column postrider.outbox_own_topic.topic is 'The topic.';
comment on column postrider.outbox_own_topic.use is 'What it is for.';
insert into postrider.outbox_own_topic values ('postrider.dlq', 'dead letters'), ('postrider.consumer.dlq', 'dead letters of consumers'), ('postrider.lifecycle', 'lifecycle events');

create table postrider.outbox_attempt_rule (
    place        integer primary key,
    topics       text not null,
    max_attempts postrider.outbox_max_attempts not null
);
comment on table postrider.outbox_attempt_rule is
'After how many attempts the events of a topic are given up, where neither they nor the templates of their tasks say it: the rule with the highest place that matches the topic. For v_outbox_event; the relay goes by its settings, and writes here what they say when it starts.';
comment on column postrider.outbox_attempt_rule.place is 'The order of the rules; 0 is for all topics.';
comment on column postrider.outbox_attempt_rule.topics is 'A regular expression for names of topics.';
comment on column postrider.outbox_attempt_rule.max_attempts is 'Attempts before an event is given up.';
insert into postrider.outbox_attempt_rule values (0, '', 5);

-- A row fills its page up to the fill factor, so each one needs a new page, and shows whether the disk has room for one.
create table postrider.outbox_write_probe (
    filler text not null
) with (fillfactor = 10, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);
comment on table postrider.outbox_write_probe is
'Empty. Readiness writes a row and takes it back, to see whether the database takes writes: one row in ten seconds from each process. Vacuum makes it small again.';
comment on column postrider.outbox_write_probe.filler is 'What makes the row so long that a page takes no second one.';

-- Tables of other outboxes whose rows are forwarded into the log by a trigger.
create table postrider.outbox_forward (
    source_table  text primary key,
    function_name text not null,
    definition    jsonb not null,
    mode          text not null constraint outbox_forward_mode check (mode in ('forward', 'shadow', 'held', 'off')),
    prefix        text not null default '',
    slot          text,
    publication   text,
    fence         pg_lsn,
    kept_as       text,
    changed_at    timestamptz not null default clock_timestamp(),
    constraint outbox_forward_held check (mode <> 'held' or fence is not null and slot is not null and publication is not null),
    constraint outbox_forward_shadow check ((mode = 'shadow') = (prefix <> ''))
);
comment on table postrider.outbox_forward is
'Tables that were an outbox before Postrider came: a trigger forwards their rows into outbox_event. postrider adopt writes it, and postrider debezium moves it from a connector to Postrider and back.';
comment on column postrider.outbox_forward.source_table is 'The table, with its schema, quoted where SQL needs it.';
comment on column postrider.outbox_forward.function_name is 'The function of its trigger, in the schema postrider.';
comment on column postrider.outbox_forward.definition is 'Which columns become topic, key, payload, headers, event id, partition and timestamp. The function is made of it.';
comment on column postrider.outbox_forward.mode is 'forward: rows become events. shadow: rows become events of topics with a prefix, beside the connector that sends the rows themselves. held: a cutover keeps the rows in outbox_held_event until the connector has sent all that is older. off: a rollback gave the rows back to the connector, and the trigger is disabled.';
comment on column postrider.outbox_forward.prefix is 'What the names of topics begin with in a shadow; empty otherwise.';
comment on column postrider.outbox_forward.slot is 'The replication slot of the connector that sends or sent the rows; null where there was none.';
comment on column postrider.outbox_forward.publication is 'The publication that the table left, or came back to.';
comment on column postrider.outbox_forward.fence is 'The position in the write-ahead log at which the table left the publication. Rows before it are the connector''s, rows behind it are Postrider''s.';
comment on column postrider.outbox_forward.kept_as is 'The table itself, where a view has its name and its rows are written into outbox_event alone; null otherwise.';
comment on column postrider.outbox_forward.changed_at is 'Since when the mode is what it is.';

create table postrider.outbox_held_event (
    id           bigint generated always as identity primary key,
    source_table text not null,
    event_id     uuid not null,
    topic        postrider.outbox_topic not null,
    key          bytea,
    payload      postrider.outbox_payload,
    headers      postrider.outbox_headers not null default '{}',
    partition    postrider.outbox_partition,
    timestamp    postrider.outbox_timestamp
);
comment on table postrider.outbox_held_event is
'Events that a cutover holds: their rows were written behind the fence, and the connector has not sent all that is before it. They move to outbox_event in the order of their ids when it has. Empty otherwise.';
comment on column postrider.outbox_held_event.id is 'Insertion order.';
comment on column postrider.outbox_held_event.source_table is 'outbox_forward.source_table.';
comment on column postrider.outbox_held_event.event_id is 'outbox_event.event_id.';
comment on column postrider.outbox_held_event.topic is 'outbox_event.topic.';
comment on column postrider.outbox_held_event.key is 'outbox_event.key.';
comment on column postrider.outbox_held_event.payload is 'outbox_event.payload.';
comment on column postrider.outbox_held_event.headers is 'outbox_event.headers.';
comment on column postrider.outbox_held_event.partition is 'outbox_event.partition.';
comment on column postrider.outbox_held_event.timestamp is 'outbox_event.timestamp.';

-- Which outbox this is.
create table postrider.outbox_source (
    only_row     boolean primary key default true check (only_row),
    source_uuid  uuid not null default gen_random_uuid(),
    name         text constraint outbox_source_name check (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    desk         text constraint outbox_source_desk check (desk <> ''),
    installed_at timestamptz not null default now(),
    place        text,
    heard        bigint not null default 0
);
comment on table postrider.outbox_source is
'One row: which outbox this is. The uuid is drawn when the outbox is installed, and a copy of the database has it too. The name is given once by outbox_name_source. Only outbox_new_identity changes either, for a copy of a database that is to be an outbox of its own.';
comment on column postrider.outbox_source.only_row is 'Always true, so that there is one row.';
comment on column postrider.outbox_source.source_uuid is 'The identity. Two databases with one uuid are copies of one another.';
comment on column postrider.outbox_source.name is 'What a desk calls it: a small letter, then up to 39 small letters, digits and hyphens. Null until it is given, and counts as main until then. A name is never reused.';
comment on column postrider.outbox_source.desk is 'The desk whose commands it obeys. Null until a desk claims it.';
comment on column postrider.outbox_source.installed_at is 'When the uuid was drawn.';
comment on column postrider.outbox_source.place is 'Which database this was when it was named (outbox_place). In another database it is a copy. Null until it is named, and where the server does not tell.';
comment on column postrider.outbox_source.heard is 'The highest number of a call of outbox_obey. Where it is lower than the desk knows, this database was set back; where it is higher than the desk ever drew, the desk was.';
insert into postrider.outbox_source default values;

-- What PostgreSQL made for constraints and identities.
comment on index postrider.outbox_event_pkey is 'The log: events in the order of their ids.';
comment on index postrider.outbox_exception_pkey is 'The exception of an event, at most one.';
comment on index postrider.outbox_forward_pkey is 'A table is forwarded once.';
comment on index postrider.outbox_held_event_pkey is 'Held events in the order in which they move on.';
comment on index postrider.outbox_hold_pkey is 'A hold by its number.';
comment on index postrider.outbox_idempotency_key_pkey is 'A key is used once per topic.';
comment on index postrider.outbox_attempt_rule_pkey is 'Rules in their order.';
comment on index postrider.outbox_own_topic_pkey is 'Each topic once.';
comment on index postrider.outbox_receipt_pkey is 'Receipts in the order in which they were written; no number is given twice, so a relay that was thought dead writes none.';
comment on index postrider.outbox_retention_pkey is 'One row for each kind of what is kept.';
comment on index postrider.outbox_skip_request_pkey is 'An event is asked to be skipped once.';
comment on index postrider.outbox_source_pkey is 'One row.';
comment on index postrider.outbox_task_event_pkey is 'The events of a task.';
comment on sequence postrider.outbox_event_id_seq is 'Numbers of outbox_event.id. A number that was taken and never committed is a gap of the log.';
comment on sequence postrider.outbox_held_event_id_seq is 'Numbers of outbox_held_event.id.';
comment on sequence postrider.outbox_hold_hold_id_seq is 'Numbers of outbox_hold.hold_id.';
