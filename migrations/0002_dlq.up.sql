-- Dead letters as they arrived, and the investigations that people work on.

create type postrider.dlq_resolution_status as enum (
    'pending', 'manually_resolved', 'permanently_failed', 'cancelled');
comment on type postrider.dlq_resolution_status is
'Where an investigation stands: pending (open), manually_resolved (the cause was fixed), permanently_failed (cannot be fixed), cancelled (no longer needed, for example a false alarm).';

create type postrider.dlq_reason as enum (
    'staleness_timeout', 'max_retries_exceeded', 'dependency_cycle_detected', 'worker_unavailable', 'manual_dlq',
    'undeliverable', 'unclassified');
comment on type postrider.dlq_reason is
'Why something was dead-lettered: staleness_timeout (a task stayed too long in a state), max_retries_exceeded (attempts spent), dependency_cycle_detected, worker_unavailable, manual_dlq (an operator''s command), undeliverable (can never be sent as it is, for example too large), unclassified (a dead letter that does not say).';

create function postrider.uuid_generate_v7() returns uuid
language sql volatile parallel safe set search_path = pg_catalog, pg_temp as $$
    -- RFC 9562: 48 bits of Unix milliseconds, version 7, variant 10, the rest random (taken from a version 4 uuid).
    select (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
            || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid
$$;
comment on function postrider.uuid_generate_v7() is 'A time-ordered uuid, version 7 of RFC 9562.';

create table postrider.dlq_entry (
    dlq_entry_uuid       uuid primary key default postrider.uuid_generate_v7(),
    subject_type         text not null check (subject_type in ('event', 'task', 'record')),
    subject_id           text not null check (octet_length(subject_id) <= 1024),
    original_state       text not null,
    dlq_reason           postrider.dlq_reason not null,
    dlq_timestamp        timestamptz not null,
    resolution_status    postrider.dlq_resolution_status not null default 'pending',
    resolution_timestamp timestamptz,
    resolution_notes     text,
    resolved_by          text,
    topic                text,
    error_code           text,
    error_message        text,
    occurrences          integer not null default 1,
    last_occurred_at     timestamptz not null,
    predecessor_uuid     uuid references postrider.dlq_entry on delete set null,
    snapshot             jsonb not null,
    metadata             jsonb,
    created_at           timestamptz not null default now(),
    updated_at           timestamptz not null default now(),
    constraint dlq_entry_resolution_timed check ((resolution_status = 'pending') = (resolution_timestamp is null))
);
comment on table postrider.dlq_entry is
'Investigations: why something could not be delivered or got stuck, and what was done about it. A subject may have many over time, at most one pending. A closed one is never re-opened; the next names it as predecessor.';
comment on column postrider.dlq_entry.dlq_entry_uuid is 'Identity, a version 7 uuid.';
comment on column postrider.dlq_entry.subject_type is 'event: an event of our outbox. task: a task of the ledger. record: a record that a consumer could not handle.';
comment on column postrider.dlq_entry.subject_id is 'Event id, task uuid, or topic/partition/offset and group of a record.';
comment on column postrider.dlq_entry.original_state is 'State of the subject when it was dead-lettered.';
comment on column postrider.dlq_entry.dlq_reason is 'See the type dlq_reason.';
comment on column postrider.dlq_entry.dlq_timestamp is 'When the subject was dead-lettered.';
comment on column postrider.dlq_entry.resolution_status is 'See the type dlq_resolution_status.';
comment on column postrider.dlq_entry.resolution_timestamp is 'When the investigation was closed; null while pending.';
comment on column postrider.dlq_entry.resolution_notes is 'What the operator found and did.';
comment on column postrider.dlq_entry.resolved_by is 'Who closed it.';
comment on column postrider.dlq_entry.topic is 'The topic that the message was bound for or came from.';
comment on column postrider.dlq_entry.error_code is 'Code of the failure.';
comment on column postrider.dlq_entry.error_message is 'Message of the failure.';
comment on column postrider.dlq_entry.occurrences is 'How many dead letters of this subject arrived while the investigation was pending.';
comment on column postrider.dlq_entry.last_occurred_at is 'When the newest of them failed.';
comment on column postrider.dlq_entry.predecessor_uuid is 'The investigation of the same subject that was closed before this one opened.';
comment on column postrider.dlq_entry.snapshot is 'The subject as it was when it was dead-lettered.';
comment on column postrider.dlq_entry.metadata is 'Free for tags, tickets and tools.';
comment on column postrider.dlq_entry.created_at is 'When the investigation was opened.';
comment on column postrider.dlq_entry.updated_at is 'When it last changed. A redrive is a row of dlq_replay and no change of this one, which would renew its entries in every index.';
create unique index dlq_entry_one_pending on postrider.dlq_entry (subject_type, subject_id) where resolution_status = 'pending';
comment on index postrider.dlq_entry_one_pending is 'At most one pending investigation per subject.';
create index dlq_entry_subject on postrider.dlq_entry (subject_type, subject_id, created_at);
comment on index postrider.dlq_entry_subject is 'The history of a subject.';
create index dlq_entry_status on postrider.dlq_entry (resolution_status, created_at, dlq_entry_uuid);
comment on index postrider.dlq_entry_status is 'Listing by status, newest first.';
create index dlq_entry_reason on postrider.dlq_entry (dlq_reason);
comment on index postrider.dlq_entry_reason is 'Statistics per reason.';

create table postrider.dlq_letter (
    letter_id        text primary key check (octet_length(letter_id) <= 1024),
    dlq_entry_uuid   uuid references postrider.dlq_entry on delete set null,
    dialect          text not null,
    dlq_topic        text not null,
    dlq_partition    integer not null,
    dlq_offset       bigint not null,
    dlq_record_at    timestamptz,
    origin_topic     text,
    origin_partition integer,
    origin_offset    bigint,
    consumer_group   text,
    event_id         uuid,
    episode          integer,
    outbox_id        bigint,
    key              bytea,
    key_kind         text not null check (key_kind in ('inline', 'tombstone', 'reference')),
    payload          bytea,
    payload_kind     text not null check (payload_kind in ('inline', 'tombstone', 'reference')),
    payload_bytes    bigint,
    headers          jsonb not null default '[]',
    error_class      text,
    error_code       text,
    error_message    text,
    attempts         integer,
    first_failed_at  timestamptz,
    last_failed_at   timestamptz,
    recorded_at      timestamptz not null default now(),
    retry_topic      text,
    original_record  text,
    hops             integer not null default 0 check (hops >= 0)
);
comment on table postrider.dlq_letter is
'Dead letters, each recorded once however often it arrives. The id stays when the investigation is purged, so that a late copy opens nothing.';
comment on column postrider.dlq_letter.letter_id is 'Permanent identity: event id and episode for our own letters; topic, partition, offset and group for others.';
comment on column postrider.dlq_letter.dlq_entry_uuid is 'The investigation it belongs to; null after that was purged.';
comment on column postrider.dlq_letter.dialect is 'Who wrote it, told by the headers: postrider, spring, spring_retry, connect, streams, share_group, cloud_stream, smallrye, wolverine, karafka, or unknown.';
comment on column postrider.dlq_letter.dlq_topic is 'The dead-letter topic it was read from.';
comment on column postrider.dlq_letter.dlq_partition is 'Its partition there.';
comment on column postrider.dlq_letter.dlq_offset is 'Its offset there.';
comment on column postrider.dlq_letter.dlq_record_at is 'Timestamp of the record.';
comment on column postrider.dlq_letter.origin_topic is 'The topic that the message was bound for or came from.';
comment on column postrider.dlq_letter.origin_partition is 'Its partition there, where it had one.';
comment on column postrider.dlq_letter.origin_offset is 'Its offset there, where it had one.';
comment on column postrider.dlq_letter.consumer_group is 'The consumer group that failed, for consumers'' letters.';
comment on column postrider.dlq_letter.event_id is 'The outbox event, for our own letters.';
comment on column postrider.dlq_letter.episode is 'How many times that event had been given up.';
comment on column postrider.dlq_letter.outbox_id is 'outbox_event.id of that event.';
comment on column postrider.dlq_letter.key is 'Key of the message, exact bytes.';
comment on column postrider.dlq_letter.key_kind is 'inline, tombstone (the message has no key), or reference (left out with the headers because the letter would not fit; see payload_kind).';
comment on column postrider.dlq_letter.payload is 'Value of the message, exact bytes; null for a tombstone or a reference.';
comment on column postrider.dlq_letter.payload_kind is 'inline, tombstone (the value is null), or reference: the value is elsewhere, in outbox_event under outbox_id, in the record that the letter points to, or, for a letter that the database refused, in the record of the dead-letter topic.';
comment on column postrider.dlq_letter.payload_bytes is 'Size of the value in bytes; null for a tombstone.';
comment on column postrider.dlq_letter.headers is 'Headers of the message without those of the dialect, as [name, value] pairs; all of them for an unknown one. Where some of an event''s cannot be read, the last is postrider-invalid-headers: all of them as the event has them, as text.';
comment on column postrider.dlq_letter.error_class is 'Class of the failure.';
comment on column postrider.dlq_letter.error_code is 'Code of the failure.';
comment on column postrider.dlq_letter.error_message is 'Message of the failure.';
comment on column postrider.dlq_letter.attempts is 'Attempts before it was given up.';
comment on column postrider.dlq_letter.first_failed_at is 'When the first attempt failed.';
comment on column postrider.dlq_letter.last_failed_at is 'When the last attempt failed.';
comment on column postrider.dlq_letter.recorded_at is 'When the collector stored it.';
comment on column postrider.dlq_letter.retry_topic is 'The topic from which the consumer group that failed, and no other, reads what is to be tried again.';
comment on column postrider.dlq_letter.original_record is 'Of a letter that had neither key nor value and points to a record: what became of asking for that. fetched: key, payload and headers are the record''s. deleted, compacted, marker, absent, other_record, no_topic: it is not there. no_leader, refused, unanswered: it may be asked for again. Null where nobody asked.';
comment on column postrider.dlq_letter.hops is 'How often the message was sent again after it had died, as its header postrider-hops said.';
create index dlq_letter_entry on postrider.dlq_letter (dlq_entry_uuid);
comment on index postrider.dlq_letter_entry is 'The letters of an investigation.';
