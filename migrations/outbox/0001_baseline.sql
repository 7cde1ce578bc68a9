-- The outbox: events waiting for Kafka, the shards that keep their order, and the holds that keep out of the way what
-- cannot go now. What people do to what waits they do by functions alone, so that nobody who operates needs the right to
-- change events, holds or shards in any other way.

create type postrider.outbox_state as enum (
    'pending', 'scheduled', 'parked', 'exhausted', 'published', 'dead_lettered');
comment on type postrider.outbox_state is
'Where an outbox event stands: pending (the relay may claim it), scheduled (waits for next_attempt_at), parked (waits for a hold on its key, partition or topic), exhausted (given up, on its way to the dead-letter topic, never again to its own topic unless somebody puts it back), published (acknowledged by its topic), dead_lettered (acknowledged by the dead-letter topic).';

-- Here and not among the code: outbox_set_max_payload_bytes replaces it, and no release may take that back.
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
    -- What a writer may write is checked when it is written, and not again once updated_at is set. Asked at every change,
    -- these cost the relay a microsecond and a half for each event it marks, and a limit of the payload that was lowered
    -- meanwhile would keep it from marking what is there.
    constraint outbox_event_payload_size check (updated_at is not null
        or octet_length(payload) <= 16777216),
    -- Not {1,249}: a bounded repeat makes the expression twenty times as slow, at every write.
    constraint outbox_event_topic_valid check (updated_at is not null
        or topic ~ '^[a-zA-Z0-9._-]+$' and octet_length(topic) <= 249 and topic <> '.' and topic <> '..'),
    constraint outbox_event_headers_shape check (updated_at is not null
        or jsonb_typeof(headers) in ('object', 'array')),
    -- Writers meet this one, so its name says what was wrong.
    constraint outbox_event_available_at_range check (updated_at is not null
        or available_at >= '0001-01-01 00:00:00+00' and available_at < '9999-12-31 00:00:00+00'),
    -- One expression: each constraint costs every write a few microseconds.
    constraint outbox_event_consistent check (
        (updated_at is not null or kind in ('event', 'task') and isfinite(created_at) and coalesce(max_attempts, 1) > 0)
        and (state = 'parked') = (hold_id is not null)
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
comment on column postrider.outbox_event.next_attempt_at is 'When a scheduled event becomes pending again, or an exhausted one is offered to the dead-letter topic again.';
comment on column postrider.outbox_event.sent_at is 'When its own topic (published) or the dead-letter topic (dead_lettered) acknowledged it.';
comment on column postrider.outbox_event.first_error_at is 'When the first attempt failed.';
comment on column postrider.outbox_event.last_error_at is 'When the last attempt failed.';
comment on column postrider.outbox_event.last_error_class is 'Class of the last failure: record (tried again until the attempts are spent), permanent (can never be delivered as it is), or, of an event that was given up because it could not be sent for too long, infrastructure (brokers, leaders or replicas away) or route (topic missing or not authorised).';
comment on column postrider.outbox_event.last_error_code is 'Code of the last failure, for example MESSAGE_TOO_LARGE.';
comment on column postrider.outbox_event.last_error is 'Message of the last failure.';
comment on column postrider.outbox_event.updated_at is 'When the relay or an operator last changed the row; null until then.';
comment on column postrider.outbox_event.hold_id is 'The hold that keeps a parked event back.';
comment on column postrider.outbox_event.task_uuid is 'The task this event belongs to, if any.';
comment on column postrider.outbox_event.idempotency_key is 'The key under which outbox_publish accepted the event; the table outbox_idempotency_key is what enforces it. Of a task''s dead letter its letter_id, which tasker_tasks.dead_letters keeps unique.';
comment on constraint outbox_event_available_at_range on postrider.outbox_event is 'An event that is never to go is not written: infinity would be an event that waits for ever and that nobody looks for. Years outside of 0001 to 9999 RFC 3339 cannot say, and so no JSON. -infinity says nothing that now() does not.';

-- Hot table of short-lived states: vacuum by count rather than by share of the table.
alter table postrider.outbox_event set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 100000);
create index outbox_event_scheduled on postrider.outbox_event (shard, next_attempt_at) where state = 'scheduled';
comment on index postrider.outbox_event_scheduled is 'Delayed events by the time they become due.';
create index outbox_event_given_up on postrider.outbox_event (event_id) where state in ('exhausted', 'dead_lettered');
comment on index postrider.outbox_event_given_up is 'Finds the row behind a dead letter.';
create index outbox_event_exhausted on postrider.outbox_event
    (topic, (coalesce(next_attempt_at, '-infinity'::timestamptz)), id) where state = 'exhausted';
comment on index postrider.outbox_event_exhausted is 'Events on their way to the dead-letter topic, by topic and by when they may go.';
-- What gives the order of a shard's events, or of those behind a hold. By "id + 0" rather than by id, which
-- nothing else is ordered by: statistics that were taken in a bad moment make the walk along the primary key
-- look as good, and it reads the events of all shards.
create index outbox_event_claim on postrider.outbox_event (shard, (id + 0)) where state = 'pending';
comment on index postrider.outbox_event_claim is 'What the relay claims from: pending events in order, per shard. Of id + 0, so that no other index can take its place.';
create index outbox_event_parked on postrider.outbox_event (hold_id, shard, (id + 0)) where state = 'parked';
comment on index postrider.outbox_event_parked is 'Events behind a hold, in the order in which they come back. Of id + 0, as that of the claims.';

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

-- Vacuumed by count rather than by share, as outbox_event is, and so are the tables below: what they cost is what every
-- claim pays. Every claim looks at all 64 rows, which fit in one page; their low-water marks rise twice a second each.
-- Room on the page keeps the new versions there. Giving back a page at the end would lock the table.
alter table postrider.outbox_shard set (fillfactor = 50, vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
insert into postrider.outbox_shard (shard) select generate_series(0, 63);

create table postrider.outbox_hold (
    hold_id       bigint generated always as identity primary key,
    scope         text not null check (scope in ('key', 'partition', 'topic', 'dead_letter')),
    topic         text not null,
    key           bytea,
    cause         text not null check (cause in
                      ('retry', 'infrastructure', 'route', 'halted', 'redrive', 'crowded', 'storm', 'commit_order')),
    error_code    text,
    error         text,
    event_id      uuid,
    held_at       timestamptz not null default now(),
    next_probe_at timestamptz not null,
    probes        integer not null default 0,
    draining      boolean not null default false,
    partition     integer,
    partitions    integer,
    constraint outbox_hold_subject_named check (
        (scope = 'key') = (key is not null)
        and (scope = 'partition') = (partition is not null) and (scope = 'partition') = (partitions is not null)
        and coalesce(partition between 0 and partitions - 1, true))
);
comment on table postrider.outbox_hold is
'What cannot go to Kafka now: a key (an event of it waits for its retry, or was given up and halts the key), a partition (its leader or replicas are away), a topic (it is missing or refused), or the dead letters bound for a dead-letter topic. Events met under a hold are parked and come back in order when it ends.';
comment on column postrider.outbox_hold.hold_id is 'Identity, referred to by outbox_event.hold_id.';
comment on column postrider.outbox_hold.scope is 'key: one key of a topic. partition: one partition of a topic. topic: a whole topic. dead_letter: exhausted events bound for this dead-letter topic.';
comment on column postrider.outbox_hold.topic is 'The topic that is held, or that the held key belongs to.';
comment on column postrider.outbox_hold.key is 'The held key; null for the other scopes.';
comment on column postrider.outbox_hold.cause is 'retry: a failed event waits for its next attempt. infrastructure: brokers, leaders or replicas away. route: topic missing or not authorised. halted: an event was given up and its key waits for somebody. redrive: that event is on its way again. crowded: the key has so many events waiting that they would keep the others of its shard waiting. storm: too many events of the topic were given up. commit_order: a transaction is open that may still commit earlier events.';
comment on column postrider.outbox_hold.error_code is 'Code of the failure that caused or last renewed the hold.';
comment on column postrider.outbox_hold.error is 'Its message.';
comment on column postrider.outbox_hold.event_id is 'The event whose failure caused the hold.';
comment on column postrider.outbox_hold.held_at is 'Since when.';
comment on column postrider.outbox_hold.next_probe_at is 'When the next event is let through to see whether the cause is gone; infinity waits for somebody.';
comment on column postrider.outbox_hold.probes is 'How often probing failed; the pause between probes grows with it.';
comment on column postrider.outbox_hold.draining is 'A probe got through: parked events are coming back in order.';
comment on column postrider.outbox_hold.partition is 'The held partition; null for the other scopes.';
comment on column postrider.outbox_hold.partitions is 'How many partitions the topic had then: keys belong to the held partition by this number, so that none changes sides while it is held.';

-- Few rows that change with every probe; a storm of failing keys makes many that are soon gone. The time
-- of the next probe is indexed, so room on the page would save nothing.
alter table postrider.outbox_hold set (vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
create index outbox_hold_probe on postrider.outbox_hold (next_probe_at);
comment on index postrider.outbox_hold_probe is 'Holds that are due for a probe or draining.';
create unique index outbox_hold_subject on postrider.outbox_hold
    (topic, scope, coalesce(sha256(key), ''::bytea), coalesce(partition, -1), coalesce(partitions, -1));
comment on index postrider.outbox_hold_subject is 'One hold per key, partition, topic or dead-letter topic. Keys are hashed, because one may be longer than an index entry can be.';
create index outbox_hold_topics on postrider.outbox_hold (topic) where scope in ('topic', 'partition');
comment on index postrider.outbox_hold_topics is 'Holds of topics and partitions, which every claim must respect.';

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

-- returned_through moves with every batch that comes back and is not indexed, so room on the page keeps
-- the new versions there, with no new index entries.
alter table postrider.outbox_hold_shard set (fillfactor = 70, vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
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

-- A row is inserted and deleted with every batch, hundreds a second, and every claim reads what is there.
alter table postrider.outbox_batch set (vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);

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

-- Inserted once and removed a month later: by share, the first vacuum of a large table would come after
-- days of removing, and its free space with it.
alter table postrider.outbox_idempotency_key set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 1000000);

-- Retention: what has been delivered goes after a while, in small batches, by a walk that needs no index of its own.
create table postrider.outbox_purge (
    kind           text primary key check (kind in ('published', 'dead_lettered', 'idempotency_key')),
    position       text,
    round_began_at timestamptz
);
comment on table postrider.outbox_purge is
'How far the purge of each kind of row has walked. Whoever purges holds the row''s lock for one batch, so only one does at a time, and a crash gives it back. Rows that must stay are walked over and looked at again in the next round, a day later.';
comment on column postrider.outbox_purge.kind is 'published: events that their topics acknowledged. dead_lettered: events whose investigation is closed. idempotency_key: keys of outbox_publish.';
comment on column postrider.outbox_purge.position is 'Where the next batch begins: after this id (published) or event id (dead_lettered), or at this block of the table (idempotency_key). Null is the beginning.';
comment on column postrider.outbox_purge.round_began_at is 'When the walk last began at the beginning.';
insert into postrider.outbox_purge (kind) values ('published'), ('dead_lettered'), ('idempotency_key');

-- Partitions, for those who write so much that removing rows one by one costs too much. Nothing is
-- partitioned until `postrider outbox partition` is run.
create table postrider.outbox_partition (
    name       text primary key,
    from_id    bigint,
    to_id      bigint not null,
    settled_at timestamptz
);
comment on table postrider.outbox_partition is
'The partitions of outbox_event by range of id, without the default one; empty while the table is not partitioned.';
comment on column postrider.outbox_partition.name is 'Name of the table in the schema postrider.';
comment on column postrider.outbox_partition.from_id is 'Its first id; null for the table as it was before, which begins at the beginning.';
comment on column postrider.outbox_partition.to_id is 'The first id after it.';
comment on column postrider.outbox_partition.settled_at is 'Since when nothing in it is known to wait, and nothing can be added to it; null until then. Retention counts from here.';

-- The doorbell: a writer's insert wakes an idle relay, and costs the writers of a busy one nothing.

-- A sequence, because its value belongs to no transaction: arming is seen at once by everybody, waits for
-- nobody, keeps nobody waiting and leaves no dead row, and reading it is one call of a built-in function.
create sequence postrider.outbox_doorbell as bigint minvalue -9223372036854775807 start with 1;
comment on sequence postrider.outbox_doorbell is
'Whether inserts into outbox_event ring. A positive value is the time, in milliseconds since 1970, until which an idle relay wants to be woken; a negative one, without its sign, is when a busy relay ended that. Never drawn from, only set.';
