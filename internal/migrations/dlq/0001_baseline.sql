-- Dead letters as they arrived, the investigations that people work on, their groups, and the redrives and operations
-- by which they are treated. Operators change them only by functions with the owner's rights, so an operator needs no
-- right to write investigations, groups or operations in any other way. The functions know what may be changed when. An
-- operator's transaction that calls one owes the audit log a row about what it changed (access_owe).

create type postrider.dlq_resolution_status as enum (
    'pending', 'manually_resolved', 'permanently_failed', 'cancelled');
comment on type postrider.dlq_resolution_status is
'Where an investigation stands: pending (open), manually_resolved (the cause was fixed), permanently_failed (cannot be fixed), cancelled (no longer needed, for example a false alarm).';

-- A row that counts is written often: without an index on what changes it is written in place.
create table postrider.dlq_group (
    dlq_group_uuid      uuid primary key default postrider.uuid_generate_v7(),
    fingerprint         text not null unique check (octet_length(fingerprint) <= 128),
    fingerprint_version integer not null,
    parts               jsonb not null check (jsonb_typeof(parts) = 'object'),
    title               text not null,
    topic               text,
    state               text not null default 'new' check (state in ('new', 'ongoing', 'regressed', 'resolved', 'muted')),
    muted_until         timestamptz,
    total               bigint not null default 0,
    pending             bigint not null default 0,
    first_seen_at       timestamptz not null,
    last_seen_at        timestamptz not null,
    resolved_through    timestamptz,
    last_entry_uuid     uuid,
    note                text,
    updated_at          timestamptz not null default now(),
    entries             bigint not null default 0,
    occurrences         bigint not null default 0,
    error_code          text,
    word                text not null default 'unknown',
    assignee            text,
    created_at          timestamptz not null default now(),
    mixed               boolean not null default false,
    opened_at           timestamptz not null default now(),
    source              text not null generated always as (coalesce(parts->>'source', 'main')) stored
) with (fillfactor = 50);
comment on table postrider.dlq_group is
'Groups of investigations with the same cause. Investigations with the same fingerprint are in the same group. The fingerprint is a hash of parts, which say why an investigation is here.';
comment on column postrider.dlq_group.dlq_group_uuid is 'Identity.';
comment on column postrider.dlq_group.fingerprint is 'Version, a colon and the hash of the parts.';
comment on column postrider.dlq_group.fingerprint_version is 'Which rule made it; a new rule makes new groups and leaves the old ones. 0: of what was there before groups.';
comment on column postrider.dlq_group.parts is 'What the hash is of: error_code, error_class, root_cause (class), message (normalised), root_frame (without its line), topic, template, source (but of main).';
comment on column postrider.dlq_group.title is 'One line for people: the words of the message that are the same in all of its investigations, with … for what varies.';
comment on column postrider.dlq_group.topic is 'The topic that the messages were bound for or came from.';
comment on column postrider.dlq_group.state is 'new (since its first investigation, until an operator acts or a day has passed), ongoing, regressed (came back after all were closed), resolved (none pending), muted (until muted_until, or for good).';
comment on column postrider.dlq_group.muted_until is 'When a muted group becomes ongoing again; null is never.';
comment on column postrider.dlq_group.total is 'Investigations that it ever had.';
comment on column postrider.dlq_group.pending is 'How many of its investigations are open.';
comment on column postrider.dlq_group.first_seen_at is 'When the first of its letters failed.';
comment on column postrider.dlq_group.last_seen_at is 'When the newest one did.';
comment on column postrider.dlq_group.resolved_through is 'Letters that failed until then do not make a resolved group regressed: they were on their way when it was resolved.';
comment on column postrider.dlq_group.last_entry_uuid is 'Its newest investigation.';
comment on column postrider.dlq_group.note is 'What people wrote about it.';
comment on column postrider.dlq_group.updated_at is 'When it last changed.';
comment on column postrider.dlq_group.entries is 'Investigations that were not purged.';
comment on column postrider.dlq_group.occurrences is 'Dead letters of these.';
comment on column postrider.dlq_group.error_code is 'Their error code.';
comment on column postrider.dlq_group.word is 'The reason in one word: the error code in small letters, or the first word of the message.';
comment on column postrider.dlq_group.assignee is 'Who looks at it.';
comment on column postrider.dlq_group.created_at is 'When it was first seen here.';
comment on column postrider.dlq_group.mixed is 'Whether people merged a group of another topic or error code into it: topic and error_code do not hold for all of its investigations then.';
comment on column postrider.dlq_group.opened_at is 'When a new cause was met: when the group was made, or when it last came back after all of it had been closed. -infinity: people split it from another.';
comment on column postrider.dlq_group.source is 'The source of all of its investigations; see dlq_entry.source. No group has investigations of two.';
create index dlq_group_opened on postrider.dlq_group (opened_at);
comment on index postrider.dlq_group_opened is 'The new and the regressed ones, which metrics count.';
create index dlq_group_state on postrider.dlq_group (state);
comment on index postrider.dlq_group_state is 'The groups of a state, which metrics count.';
create index dlq_group_topic on postrider.dlq_group (topic);
comment on index postrider.dlq_group_topic is 'The groups of a topic.';
create index dlq_group_code on postrider.dlq_group (error_code);
comment on index postrider.dlq_group_code is 'The groups of an error code.';
-- What says no group belongs here, so that nothing is uncounted.
insert into postrider.dlq_group (dlq_group_uuid, fingerprint, fingerprint_version, parts, title, first_seen_at, last_seen_at, state)
values ('00000000-0000-0000-0000-000000000000', '0:none', 0, '{}', 'in no group', now(), now(), 'resolved');

create table postrider.dlq_fingerprint (
    fingerprint    text primary key check (octet_length(fingerprint) <= 128),
    dlq_group_uuid uuid not null references postrider.dlq_group on delete cascade,
    actor          text not null,
    created_at     timestamptz not null default now()
);
comment on table postrider.dlq_fingerprint is
'Fingerprints whose investigations people put into another group than the one that has the fingerprint: by merging two groups, or by splitting one. New investigations with the fingerprint are opened in that group.';
comment on column postrider.dlq_fingerprint.fingerprint is 'The fingerprint.';
comment on column postrider.dlq_fingerprint.dlq_group_uuid is 'The group that its investigations are opened in.';
comment on column postrider.dlq_fingerprint.actor is 'Who decided it.';
comment on column postrider.dlq_fingerprint.created_at is 'When.';
create index dlq_fingerprint_group on postrider.dlq_fingerprint (dlq_group_uuid);
comment on index postrider.dlq_fingerprint_group is 'What was merged into a group.';

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
    -- The triggers see to it that a group exists: a foreign key would lock the group's row for each investigation.
    dlq_group_uuid       uuid not null default '00000000-0000-0000-0000-000000000000',
    attempts             integer,
    assignee             text,
    root_cause           text,
    root_frame           text,
    fingerprint          text,
    fingerprint_exact    text,
    task_uuid            uuid,
    consumer_group       text,
    dlq_topic            text,
    error_category       text check (error_category in ('validation', 'transient', 'fatal')),
    source               text not null default 'main',
    -- An event or a task of another source may have the id of one that is here: a copy of a database repeats all of them.
    constraint dlq_entry_source check (source = 'main' or source ~ '^[a-z][a-z0-9-]{0,39}$' and task_uuid is null
        and (subject_type = 'record' or starts_with(subject_id, source || '/'))),
    constraint dlq_entry_resolution_timed check ((resolution_status = 'pending') = (resolution_timestamp is null))
);
comment on table postrider.dlq_entry is
'Investigations: why something could not be delivered or got stuck, and what was done about it. A subject may have many over time, at most one pending. A closed one is never re-opened; the next names it as predecessor.';
comment on column postrider.dlq_entry.dlq_entry_uuid is 'Identity, a version 7 uuid.';
comment on column postrider.dlq_entry.subject_type is 'event: an event of an outbox. task: a task of a ledger. record: a record that a consumer could not handle.';
comment on column postrider.dlq_entry.subject_id is 'Event id, task uuid, or topic/partition/offset and group of a record. Of another source than main, the name of the source and a slash stand before an event id or a task uuid.';
comment on column postrider.dlq_entry.original_state is 'State of the subject when it was dead-lettered.';
comment on column postrider.dlq_entry.dlq_reason is 'See the type dlq_reason.';
comment on column postrider.dlq_entry.dlq_timestamp is 'When the subject was dead-lettered.';
comment on column postrider.dlq_entry.resolution_status is 'See the type dlq_resolution_status.';
comment on column postrider.dlq_entry.resolution_timestamp is 'When the investigation was closed; null while pending.';
comment on column postrider.dlq_entry.resolution_notes is 'What the operator found and did.';
comment on column postrider.dlq_entry.resolved_by is 'Who closed it, or was named as that, which may be before. postrider: it was closed by rule, because its message was sent again and arrived, or was given up again and another investigation goes on, or because its task was retried without a name.';
comment on column postrider.dlq_entry.topic is 'The topic that the message was bound for or came from.';
comment on column postrider.dlq_entry.error_code is 'Code of the failure.';
comment on column postrider.dlq_entry.error_message is 'Message of the failure.';
comment on column postrider.dlq_entry.error_category is 'What the failure asks of people, where its first letter names that: validation, transient or fatal. Null: it follows from reason and code.';
comment on column postrider.dlq_entry.occurrences is 'How many dead letters of this subject arrived while the investigation was pending.';
comment on column postrider.dlq_entry.last_occurred_at is 'When the newest of them failed.';
comment on column postrider.dlq_entry.predecessor_uuid is 'The investigation that this one goes on from: of the message that was redriven and died again, or else the closed one of the same subject, or else the last of the group that it opened again.';
comment on column postrider.dlq_entry.snapshot is 'The subject as it was when it was dead-lettered.';
comment on column postrider.dlq_entry.metadata is 'Free for tags, tickets and tools.';
comment on column postrider.dlq_entry.created_at is 'When the investigation was opened.';
comment on column postrider.dlq_entry.updated_at is 'When it last changed. A redrive is a row of dlq_redrive and no change of this one, which would renew its entries in every index.';
comment on column postrider.dlq_entry.dlq_group_uuid is 'Its group. All zeroes: in no group.';
comment on column postrider.dlq_entry.attempts is 'Attempts of its newest letter (retry_count of the API).';
comment on column postrider.dlq_entry.assignee is 'Who looks at it.';
comment on column postrider.dlq_entry.root_cause is 'Class and message of the exception behind the others, as the stack trace of its first letter says; null where there is none.';
comment on column postrider.dlq_entry.root_frame is 'The first place in the program''s own code on the way up from the root cause; null where the stack trace has none.';
comment on column postrider.dlq_entry.fingerprint is 'Fingerprint of the dead letter that opened it. It names the group, unless people merged or split groups. Null where no dead letter opened it.';
comment on column postrider.dlq_entry.fingerprint_exact is 'The narrower fingerprint of the same dead letter, in which quoted names in the message count, too. It names a group only if people split one.';
comment on column postrider.dlq_entry.task_uuid is 'The task that it is about, or that its event belongs to; null for neither, and for the tasks of other sources. The task need not exist.';
comment on column postrider.dlq_entry.consumer_group is 'The consumer group that gave up its first dead letter; null where the relay did.';
comment on column postrider.dlq_entry.dlq_topic is 'The dead-letter topic that its first dead letter was read from.';
comment on column postrider.dlq_entry.source is 'The database that it is about, by the name of its outbox_source, as its first dead letter says. main: this one. Of a record it is what the message said; any producer may have written that.';

-- Where vacuum has been, counting and passing over rows read the index alone. So vacuum runs when a hundredth of the rows
-- is new; it also empties the list of messages that wait to be indexed.
alter table postrider.dlq_entry set (autovacuum_vacuum_insert_scale_factor = 0.01);
create unique index dlq_entry_one_pending on postrider.dlq_entry (subject_type, subject_id) where resolution_status = 'pending';
comment on index postrider.dlq_entry_one_pending is 'At most one pending investigation per subject.';
create index dlq_entry_subject on postrider.dlq_entry (subject_type, subject_id, created_at);
comment on index postrider.dlq_entry_subject is 'The history of a subject.';
create index dlq_entry_created on postrider.dlq_entry (created_at, dlq_entry_uuid);
comment on index postrider.dlq_entry_created is 'Listing by age.';
create index dlq_entry_updated on postrider.dlq_entry (updated_at, dlq_entry_uuid);
comment on index postrider.dlq_entry_updated is 'Listing by the time of the last change.';
-- The expression keeps these two apart from dlq_entry_created: an order by created_at could also be read from that
-- one, and would be, to find what all is older than a million others. With the column itself beside it, counting and
-- passing over read the index alone.
create index dlq_entry_group on postrider.dlq_entry (dlq_group_uuid, resolution_status, (created_at at time zone 'UTC'), dlq_entry_uuid) include (created_at);
comment on index postrider.dlq_entry_group is 'The investigations of a group.';
create index dlq_entry_status on postrider.dlq_entry (resolution_status, (created_at at time zone 'UTC'), dlq_entry_uuid) include (created_at);
comment on index postrider.dlq_entry_status is 'Listing by status, newest first.';
create index dlq_entry_resolved on postrider.dlq_entry (resolution_timestamp) where resolution_timestamp is not null;
comment on index postrider.dlq_entry_resolved is 'Closed investigations, the one that was closed first in front, for retention.';
create index dlq_entry_predecessor on postrider.dlq_entry (predecessor_uuid) where predecessor_uuid is not null;
comment on index postrider.dlq_entry_predecessor is 'What came after an investigation, for the foreign key.';
create index dlq_entry_assignee on postrider.dlq_entry (assignee, created_at, dlq_entry_uuid) where assignee is not null;
comment on index postrider.dlq_entry_assignee is 'Investigations by assignee.';
create index dlq_entry_task on postrider.dlq_entry (task_uuid, created_at) where task_uuid is not null;
comment on index postrider.dlq_entry_task is 'The investigations of a task and of its events.';
create index dlq_entry_consumer_group on postrider.dlq_entry (consumer_group) where consumer_group is not null;
comment on index postrider.dlq_entry_consumer_group is 'Investigations by the consumer group that failed.';
create index dlq_entry_dlq_topic on postrider.dlq_entry (dlq_topic);
comment on index postrider.dlq_entry_dlq_topic is 'Investigations by the topic of their dead letters.';
create index dlq_entry_dashboard on postrider.dlq_entry (dlq_reason, dlq_timestamp);
comment on index postrider.dlq_entry_dashboard is 'The first and the last of each reason.';

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
    key_kind         text not null check (key_kind in ('inline', 'tombstone', 'reference', 'removed')),
    payload          bytea,
    payload_kind     text not null check (payload_kind in ('inline', 'tombstone', 'reference', 'removed')),
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
    hops             integer not null default 0 check (hops >= 0),
    content_hash     bytea,
    error_category   text check (error_category in ('validation', 'transient', 'fatal')),
    source           text not null default 'main',
    source_outbox_id bigint,
    halts_key        boolean,
    -- outbox_id, and ids of letters that begin with event: or task:, lead to the outbox and the tasks of this database alone.
    constraint dlq_letter_source check (case when source = 'main' then source_outbox_id is null
        else outbox_id is null and not starts_with(letter_id, 'event:') and not starts_with(letter_id, 'task:') end),
    constraint dlq_letter_removed check (dlq_entry_uuid is not null or num_nonnulls(key, payload) = 0 and headers = '[]')
);
comment on table postrider.dlq_letter is
'Dead letters, each recorded once however often it arrives. When the investigation is removed, key, payload, headers and error message of its letters are removed with it. The id stays, so that a late copy opens nothing.';
comment on column postrider.dlq_letter.letter_id is 'Permanent identity: event id and episode for our own letters; topic, partition, offset and group for others. Of another source than main, the name of the source and a slash stand before that of an event or a task.';
comment on column postrider.dlq_letter.dlq_entry_uuid is 'The investigation it belongs to; null after that was removed.';
comment on column postrider.dlq_letter.dialect is 'Who wrote it, told by the headers: postrider, spring, spring_retry, connect, streams, share_group, cloud_stream, smallrye, wolverine, karafka, custom (headers that the settings name), or unknown.';
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
comment on column postrider.dlq_letter.outbox_id is 'outbox_event.id of that event in this database; null for an event of another source.';
comment on column postrider.dlq_letter.key is 'Key of the message, exact bytes.';
comment on column postrider.dlq_letter.key_kind is 'inline, tombstone (the message has no key), reference (left out with the headers because the letter would not fit; see payload_kind), or removed (with its investigation).';
comment on column postrider.dlq_letter.payload is 'Value of the message, exact bytes; null for a tombstone or a reference.';
comment on column postrider.dlq_letter.payload_kind is 'inline, tombstone (the value is null), removed (with its investigation), or reference: the value is elsewhere, in outbox_event under outbox_id (of another source: there, under source_outbox_id), in the record that the letter points to, or, for a letter that the database refused, in the record of the dead-letter topic.';
comment on column postrider.dlq_letter.payload_bytes is 'Size of the value in bytes; null for a tombstone.';
comment on column postrider.dlq_letter.headers is 'Headers of the message without the dialect''s own, as [name, value] pairs; all headers for an unknown dialect. If some headers of an event cannot be read, the last pair is postrider-invalid-headers: all headers of the event, as text.';
comment on column postrider.dlq_letter.error_class is 'Class of the failure.';
comment on column postrider.dlq_letter.error_code is 'Code of the failure.';
comment on column postrider.dlq_letter.error_message is 'Message of the failure.';
comment on column postrider.dlq_letter.error_category is 'What the failure asks of people, where the letter names that (postrider-error-category): validation, transient or fatal. Null: it follows from class and code.';
comment on column postrider.dlq_letter.attempts is 'Attempts before it was given up.';
comment on column postrider.dlq_letter.first_failed_at is 'When the first attempt failed.';
comment on column postrider.dlq_letter.last_failed_at is 'When the last attempt failed.';
comment on column postrider.dlq_letter.recorded_at is 'When the collector stored it.';
comment on column postrider.dlq_letter.retry_topic is 'The topic of the messages to try again. Only the consumer group that failed reads it.';
comment on column postrider.dlq_letter.original_record is 'For a letter that had neither key nor value and points to a record: the result of asking for that record. fetched: key, payload and headers are the record''s. deleted, compacted, marker, absent, other_record, no_topic: the record is not there. no_leader, refused, unanswered: it may be asked for again. Null: it was not asked for.';
comment on column postrider.dlq_letter.hops is 'How often the message was sent again after it had died, as its header postrider-hops said.';
comment on column postrider.dlq_letter.content_hash is 'SHA-256 of the SHA-256 hashes of key and payload (nothing for a null one) and of the headers, one after the other, written when these are removed; null before. It tells whether a message that is found elsewhere is this one.';
comment on column postrider.dlq_letter.source is 'The database that the message comes from, as its header postrider-source says; main, which is this one, where it says none. See dlq_entry.source.';
comment on column postrider.dlq_letter.halts_key is 'Whether the event halted its key when it was given up, as the header postrider-halts-key of the relay''s letter says; null where no header says it. Whether an event of main halts its key now outbox_hold says.';
comment on column postrider.dlq_letter.source_outbox_id is 'outbox_event.id of that event in the database of the source, where that is another one; null for main.';
create index dlq_letter_entry on postrider.dlq_letter (dlq_entry_uuid);
comment on index postrider.dlq_letter_entry is 'The letters of an investigation.';
create index dlq_letter_event on postrider.dlq_letter (event_id) where event_id is not null;
comment on index postrider.dlq_letter_event is 'The dead letters about an event.';
-- The dead letter of a task that could not be delivered is recorded under its own id, and its investigation
-- is the task's.
create index dlq_letter_of_task on postrider.dlq_letter (event_id, episode) where episode is not null and letter_id like 'task:%';
comment on index postrider.dlq_letter_of_task is 'Letters about tasks that arrived as dead letters of an outbox event, by that event.';
create index dlq_letter_away on postrider.dlq_letter (dlq_entry_uuid) where original_record in ('no_leader', 'refused', 'unanswered');
comment on index postrider.dlq_letter_away is 'Letters that point to records which could not be asked for yet.';

create table postrider.dlq_operation (
    dlq_operation_uuid uuid primary key default postrider.uuid_generate_v7(),
    kind          text not null check (kind in ('redrive', 'resolve', 'purge')),
    name          text not null,
    actor         text not null,
    state         text not null check (state in ('planned', 'canary', 'running', 'paused', 'halted', 'aborted', 'completed')),
    scope         jsonb not null,
    sources       text[] not null default '{*}',
    options       jsonb not null default '{}',
    plan          jsonb not null default '{}',
    reason        text,
    items         bigint not null default 0,
    done          bigint not null default 0,
    skipped       bigint not null default 0,
    failed        bigint not null default 0,
    came_back     bigint not null default 0,
    delivered     bigint not null default 0,
    error         text,
    next_at       timestamptz,
    created_at    timestamptz not null default now(),
    started_at    timestamptz,
    treated_at    timestamptz,
    treated_through bigint not null default 0,
    finished_at   timestamptz,
    updated_at    timestamptz not null default now()
);
comment on table postrider.dlq_operation is 'Redrives, resolutions and purges of many investigations at once. The scope is frozen when the operation is planned. Ended operations are removed after dlq.operation_retention_days.';
comment on column postrider.dlq_operation.dlq_operation_uuid is 'Identity.';
comment on column postrider.dlq_operation.kind is 'redrive, resolve or purge.';
comment on column postrider.dlq_operation.name is 'Given by the operator who started it, for example the incident. Unique among the operations of the same sources that have not ended.';
comment on column postrider.dlq_operation.actor is 'Who started it.';
comment on column postrider.dlq_operation.state is 'planned (not begun), canary (the first few are out, the rest waits for them), running, paused (by an operator), halted (too many came back dead), aborted, completed.';
comment on column postrider.dlq_operation.scope is 'What was asked for: a filter or a group. An empty object where investigations were named: they are the items.';
comment on column postrider.dlq_operation.sources is 'The sources of all that may be in its scope, by name: those of a group, of the investigations that are named, or of a filter that says them. {*} is a scope that takes any source.';
comment on column postrider.dlq_operation.options is 'target, rate (a second), canary (how many), halt_ratio, edits.';
comment on column postrider.dlq_operation.plan is 'What it would do when it was planned (dlq_plan_operation). Counts: items, bytes, keys whose order is affected, redriven before, tasks, halting, unreadable_headers. By topic: topics, and reaches, the messages and the groups that failed. What the caller foresaw: left_out by reason among the first foreseen items, overlapping and overlaps with operations that have not ended.';
comment on column postrider.dlq_operation.reason is 'Why, in the words of who started it.';
comment on column postrider.dlq_operation.items is 'Investigations in its scope.';
comment on column postrider.dlq_operation.done is 'Items that it has treated.';
comment on column postrider.dlq_operation.skipped is 'Items that it did nothing with, each with its reason.';
comment on column postrider.dlq_operation.failed is 'Items that it could not treat.';
comment on column postrider.dlq_operation.came_back is 'Redriven ones that died again: given up by the relay, or by a consumer group whose letter was here when their delivery was seen.';
comment on column postrider.dlq_operation.delivered is 'Redriven ones that their topic acknowledged.';
comment on column postrider.dlq_operation.error is 'Why it halted, or why its last batch failed, which is made again.';
comment on column postrider.dlq_operation.next_at is 'When its next items are due, by its rate.';
comment on column postrider.dlq_operation.created_at is 'When it was planned.';
comment on column postrider.dlq_operation.started_at is 'When it began.';
comment on column postrider.dlq_operation.treated_at is 'When its last item was treated; what was redriven may still be on its way.';
comment on column postrider.dlq_operation.treated_through is 'All items up to this place were treated. The next item is looked for behind it.';
comment on column postrider.dlq_operation.finished_at is 'When it ended.';
comment on column postrider.dlq_operation.updated_at is 'When it last changed.';
create index dlq_operation_open on postrider.dlq_operation (created_at) where state in ('canary', 'running', 'paused', 'halted', 'planned');
comment on index postrider.dlq_operation_open is 'Operations that have not ended.';
create unique index dlq_operation_name on postrider.dlq_operation (name, sources) where state in ('canary', 'running', 'paused', 'halted', 'planned');
comment on index postrider.dlq_operation_name is 'Operations of the same sources that have not ended have different names, so that a name says which one is meant. Of other sources no person hears by a name.';

create table postrider.dlq_operation_item (
    dlq_operation_uuid uuid not null references postrider.dlq_operation on delete cascade,
    item               bigint not null,
    dlq_entry_uuid     uuid not null,
    state              text not null default 'waiting' check (state in ('waiting', 'done', 'skipped', 'failed')),
    reason             text,
    outcome            text check (outcome in ('sent', 'delivered', 'came_back')),
    primary key (dlq_operation_uuid, item)
);
comment on table postrider.dlq_operation_item is 'The frozen scope of an operation, in the order in which it is treated: that of the outbox per key.';
comment on column postrider.dlq_operation_item.dlq_operation_uuid is 'The operation.';
comment on column postrider.dlq_operation_item.item is 'Place, from 1.';
comment on column postrider.dlq_operation_item.dlq_entry_uuid is 'The investigation; it may be gone by now.';
comment on column postrider.dlq_operation_item.state is 'waiting, done, skipped or failed.';
comment on column postrider.dlq_operation_item.reason is 'Why it was skipped or failed, for example already_queued.';
comment on column postrider.dlq_operation_item.outcome is 'Of an item whose message was sent again: sent (on its way), delivered (its topic acknowledged it), or came_back (given up again, by the relay or by a consumer group; see dlq_operation.came_back). Null for all others.';
create unique index dlq_operation_item_entry on postrider.dlq_operation_item (dlq_entry_uuid, dlq_operation_uuid);
comment on index postrider.dlq_operation_item_entry is 'The item of an investigation, when its redrive ends.';
create index dlq_operation_item_back on postrider.dlq_operation_item (dlq_operation_uuid, item) where outcome = 'came_back';
comment on index postrider.dlq_operation_item_back is 'The few that came back dead, among many that were delivered.';
-- By item + 0, which the primary key has not: a walk along that would pass all that were treated.
create index dlq_operation_item_waiting on postrider.dlq_operation_item (dlq_operation_uuid, (item + 0)) where state = 'waiting';
comment on index postrider.dlq_operation_item_waiting is 'What an operation has yet to treat, in order.';
create index dlq_operation_item_left on postrider.dlq_operation_item (dlq_operation_uuid, state, item) where state in ('skipped', 'failed');
comment on index postrider.dlq_operation_item_left is 'The few that an operation skipped or could not treat, among many that it treated.';

create table postrider.dlq_redrive (
    redrive_id          text primary key check (octet_length(redrive_id) <= 128),
    dlq_entry_uuid     uuid not null,
    generation         integer not null,
    dlq_operation_uuid uuid references postrider.dlq_operation on delete set null,
    letter_id          text,
    outbox_id          bigint not null,
    event_id           uuid not null,
    in_place           boolean not null default false,
    target             text not null,
    edited             boolean not null default false,
    actor              text not null,
    episode            integer not null default 0,
    outcome            text check (outcome in ('delivered', 'came_back', 'unknown')),
    created_at         timestamptz not null default now(),
    finished_at        timestamptz,
    source             text not null default 'main',
    unique (dlq_entry_uuid, generation)
);
comment on table postrider.dlq_redrive is 'Redrives: a dead letter''s message sent again. At most one per investigation is on its way. They go with their investigation.';
comment on column postrider.dlq_redrive.redrive_id is 'Investigation and generation; sent as the header replay_id, so that consumers know a repeated one.';
comment on column postrider.dlq_redrive.dlq_entry_uuid is 'The investigation.';
comment on column postrider.dlq_redrive.generation is 'Which redrive of it this is, from 1.';
comment on column postrider.dlq_redrive.dlq_operation_uuid is 'The operation that made it, if any.';
comment on column postrider.dlq_redrive.letter_id is 'The letter that was sent again.';
comment on column postrider.dlq_redrive.outbox_id is 'outbox_event.id of the row that carries it, in the outbox of the source. 0 until the source has answered the command (dlq_command).';
comment on column postrider.dlq_redrive.event_id is 'Its event id; a new one, unless the same row was redriven. Until the source has answered it is the new one.';
comment on column postrider.dlq_redrive.in_place is 'Whether the same row was redriven (halt_key).';
comment on column postrider.dlq_redrive.target is 'The topic that it goes to.';
comment on column postrider.dlq_redrive.edited is 'Whether headers or payload were changed.';
comment on column postrider.dlq_redrive.actor is 'Who asked for it.';
comment on column postrider.dlq_redrive.episode is 'How many times that row had been given up when it was sent again.';
comment on column postrider.dlq_redrive.outcome is 'Null while it is on its way; then delivered, came_back (given up again), or unknown (its source was forgotten).';
comment on column postrider.dlq_redrive.created_at is 'When.';
comment on column postrider.dlq_redrive.finished_at is 'When its outcome was seen.';
comment on column postrider.dlq_redrive.source is 'The source in whose outbox it is sent again. main: this database.';
-- In words that no query uses: a partial index that was empty when statistics were taken looks like one page to read, and
-- any query with its condition may walk all of it.
create unique index dlq_redrive_one_open on postrider.dlq_redrive (dlq_entry_uuid) where coalesce(outcome, '') = '';
comment on index postrider.dlq_redrive_one_open is 'At most one redrive of an investigation is on its way.';
create index dlq_redrive_open on postrider.dlq_redrive (source, outbox_id, redrive_id) where outcome is null;
comment on index postrider.dlq_redrive_open is 'Redrives whose outcome is looked for.';
create index dlq_redrive_event on postrider.dlq_redrive (event_id);
comment on index postrider.dlq_redrive_event is 'Which redrive a dead letter came from.';
create index dlq_redrive_operation on postrider.dlq_redrive (dlq_operation_uuid) where dlq_operation_uuid is not null;
comment on index postrider.dlq_redrive_operation is 'The redrives of an operation.';

create table postrider.dlq_command (
    dlq_command_uuid uuid primary key default postrider.uuid_generate_v7(),
    number           bigint generated always as identity,
    source           text not null check (source <> 'main'),
    kind             text not null check (kind in ('redrive', 'close', 'release')),
    dlq_entry_uuid   uuid not null,
    redrive_id       text,
    outbox_id        bigint not null,
    event_id         uuid not null,
    episode          integer not null,
    request          jsonb not null default '{}',
    actor            text not null,
    created_at       timestamptz not null default now(),
    busy_at          timestamptz,
    answered_at      timestamptz,
    answer           text,
    detail           text,
    constraint dlq_command_answered check ((answered_at is null) = (answer is null)),
    constraint dlq_command_redrive check ((kind = 'redrive') = (redrive_id is not null))
);
comment on table postrider.dlq_command is
'What this desk wants done to events of other sources, each in the database of its source. A command is written in the transaction of what it follows from, and sent until the source has answered (outbox_obey), in the order of number. It acts once, however often it is sent. Written by functions alone, from stored letters. Answered ones are removed after dlq.operation_retention_days.';
comment on column postrider.dlq_command.dlq_command_uuid is 'Identity. The source knows by it that it has obeyed.';
comment on column postrider.dlq_command.number is 'The order in which commands are sent to a source.';
comment on column postrider.dlq_command.source is 'The source.';
comment on column postrider.dlq_command.kind is 'redrive: send the event again. close: its investigation is closed or gone; the source may remove the event, and lets the key go that it halts. release: let the key go that the event halts, and keep the event.';
comment on column postrider.dlq_command.dlq_entry_uuid is 'The investigation; it may be gone by now.';
comment on column postrider.dlq_command.redrive_id is 'The redrive, of a command to redrive.';
comment on column postrider.dlq_command.outbox_id is 'outbox_event.id in the source, as the letter says.';
comment on column postrider.dlq_command.event_id is 'The event, as the letter says.';
comment on column postrider.dlq_command.episode is 'How often it had been given up, as the letter says. The source does nothing with an event that has moved on since.';
comment on column postrider.dlq_command.request is 'What else outbox_obey is told of a redrive: target, max_hops, what is changed. What is changed is removed when the source has answered.';
comment on column postrider.dlq_command.actor is 'Who asked for it.';
comment on column postrider.dlq_command.created_at is 'When.';
comment on column postrider.dlq_command.busy_at is 'When the source last said that its relay has the key in work. It is asked again.';
comment on column postrider.dlq_command.answered_at is 'When the source had answered; null until then.';
comment on column postrider.dlq_command.answer is 'What the source answered; see outbox_obey. abandoned: the source was forgotten before it answered. undone: it had answered, and was set back to a time before.';
comment on column postrider.dlq_command.detail is 'Why it refused, in its words.';
create index dlq_command_waiting on postrider.dlq_command (source, number) where answered_at is null;
comment on index postrider.dlq_command_waiting is 'What a source is yet to answer, in order.';
create index dlq_command_release on postrider.dlq_command (dlq_entry_uuid) where kind = 'release' and answered_at is null;
comment on index postrider.dlq_command_release is 'Whether a source was asked to let the key of an investigation go, and has not answered.';
create index dlq_command_answered_at on postrider.dlq_command (answered_at) where answered_at is not null;
comment on index postrider.dlq_command_answered_at is 'Answered commands, the first of them in front, for retention.';
create index dlq_command_number on postrider.dlq_command (number);
comment on index postrider.dlq_command_number is 'Lists, the newest in front.';

create table postrider.dlq_source (
    source       text primary key check (source <> 'main'),
    source_uuid  uuid,
    drawn        bigint not null default 0,
    answered     bigint not null default 0,
    receipt      bigint not null default 0,
    stopped      text constraint dlq_source_stopped check (stopped in ('rewound', 'desk_rewound', 'identity')),
    stopped_at   timestamptz,
    forgotten_at timestamptz,
    constraint dlq_source_since check ((stopped is null) = (stopped_at is null))
) with (fillfactor = 50);
comment on table postrider.dlq_source is
'What this desk knows of other sources, by which it sees that one of the two databases was set back. What is known here is noted after it was committed in the source, and what the source hears was committed here before: so a source that has less than answered or receipt was set back, and one that has heard of more than drawn shows that this database was.';
comment on column postrider.dlq_source.source is 'The name of the source.';
comment on column postrider.dlq_source.source_uuid is 'Its outbox_source.source_uuid; null until it was seen.';
comment on column postrider.dlq_source.drawn is 'The highest number of a call of outbox_obey: it is drawn before the call.';
comment on column postrider.dlq_source.answered is 'The highest number of a call whose answers were noted.';
comment on column postrider.dlq_source.receipt is 'The highest outbox_receipt.number that was seen there.';
comment on column postrider.dlq_source.stopped is 'Why nothing is sent for it and nothing to it. rewound: it was set back. desk_rewound: this database was. identity: another database has its name. Null while all is well. postrider sources rejoin ends it.';
comment on column postrider.dlq_source.stopped_at is 'Since when.';
comment on column postrider.dlq_source.forgotten_at is 'Since when it is gone for good (postrider sources forget); null while it is not.';
comment on index postrider.dlq_source_pkey is 'One row for each source.';

create table postrider.dlq_comment (
    dlq_comment_id bigint generated always as identity primary key,
    dlq_entry_uuid uuid,
    dlq_group_uuid uuid references postrider.dlq_group on delete cascade,
    author         text not null check (author <> ''),
    author_id      text not null check (author_id <> ''),
    text           text check (text <> '' and octet_length(text) <= 16384),
    created_at     timestamptz not null default now(),
    deleted_at     timestamptz,
    constraint dlq_comment_about check ((dlq_entry_uuid is null) <> (dlq_group_uuid is null)),
    constraint dlq_comment_deleted check ((text is null) = (deleted_at is not null))
);
comment on table postrider.dlq_comment is
'What people wrote about investigations and groups: a thread of each, which is only added to. A comment goes with its investigation.';
comment on column postrider.dlq_comment.dlq_comment_id is 'Identity; a later comment has a higher one.';
comment on column postrider.dlq_comment.dlq_entry_uuid is 'The investigation that it is about; null for a group. There is one, without a foreign key, which would look for comments once for each investigation that is purged: dlq_insert_comment looks for it, and dlq_entry_forget removes its comments with it.';
comment on column postrider.dlq_comment.dlq_group_uuid is 'The group that it is about; null for an investigation.';
comment on column postrider.dlq_comment.author is 'Who wrote it, by the name that the audit log has. The author alone can delete it.';
comment on column postrider.dlq_comment.author_id is 'Which person of that name wrote it: access_session.person, key: and the id of an API key, or the author again for a command.';
comment on column postrider.dlq_comment.text is 'What was written, at most 16 KiB; null once it is deleted.';
comment on column postrider.dlq_comment.created_at is 'When it was written.';
comment on column postrider.dlq_comment.deleted_at is 'When its author deleted it; null while it is there.';
create index dlq_comment_entry on postrider.dlq_comment (dlq_entry_uuid, dlq_comment_id) where dlq_entry_uuid is not null;
comment on index postrider.dlq_comment_entry is 'The thread of an investigation.';
create index dlq_comment_group on postrider.dlq_comment (dlq_group_uuid, dlq_comment_id) where dlq_group_uuid is not null;
comment on index postrider.dlq_comment_group is 'The thread of a group.';

create table postrider.dlq_count (
    dlq_group_uuid    uuid not null references postrider.dlq_group on delete cascade,
    dlq_reason        postrider.dlq_reason not null,
    subject_type      text not null,
    resolution_status postrider.dlq_resolution_status not null,
    entries           bigint not null,
    primary key (dlq_group_uuid, dlq_reason, subject_type, resolution_status)
) with (fillfactor = 50);
comment on table postrider.dlq_count is 'How many investigations there are. Kept by triggers on dlq_entry; dlq_recount() makes it anew.';
comment on column postrider.dlq_count.dlq_group_uuid is 'The group of the investigations.';
comment on column postrider.dlq_count.dlq_reason is 'With which reason.';
comment on column postrider.dlq_count.subject_type is 'About what.';
comment on column postrider.dlq_count.resolution_status is 'And where they stand.';
comment on column postrider.dlq_count.entries is 'How many.';

create table postrider.dlq_hour (
    dlq_group_uuid uuid not null references postrider.dlq_group on delete cascade,
    hour           timestamptz not null,
    opened         bigint not null,
    primary key (dlq_group_uuid, hour)
) with (fillfactor = 50);
comment on table postrider.dlq_hour is 'How many of the investigations were opened in which hour. Kept by triggers on dlq_entry; dlq_recount() makes it anew.';
comment on column postrider.dlq_hour.dlq_group_uuid is 'The group of the investigations.';
comment on column postrider.dlq_hour.hour is 'The beginning of the hour, in UTC.';
comment on column postrider.dlq_hour.opened is 'How many.';
create index dlq_hour_hour on postrider.dlq_hour (hour);
comment on index postrider.dlq_hour_hour is 'What was opened lately.';

create type postrider.dlq_delta as (
    dlq_group_uuid uuid, dlq_reason postrider.dlq_reason, subject_type text, resolution_status postrider.dlq_resolution_status,
    hour timestamptz, opened bigint, entries bigint, occurrences bigint, first_seen timestamptz, last_seen timestamptz, newest uuid);
comment on type postrider.dlq_delta is 'By how much a statement changed the counters of investigations.';

-- Here and not among the code, because this calls it. Where it finds no extension, an administrator may call it later.
create function postrider.dlq_index_messages() returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    space text;
begin
    create extension if not exists pg_trgm with schema postrider;
    select n.nspname into space from pg_extension x join pg_namespace n on n.oid = x.extnamespace where x.extname = 'pg_trgm';
    -- The eras of a row are three numbers: of the spans of about a minute, an hour and three days in which it was opened.
    execute format($index$create index if not exists dlq_entry_message on postrider.dlq_entry using gin (
        (coalesce(error_message, '') || coalesce(' | ' || root_cause, '') || coalesce(' | ' || root_frame, '')) %I.gin_trgm_ops,
        (array[floor(extract(epoch from created_at at time zone 'UTC') / 64)::bigint * 4,
               floor(extract(epoch from created_at at time zone 'UTC') / 4096)::bigint * 4 + 1,
               floor(extract(epoch from created_at at time zone 'UTC') / 262144)::bigint * 4 + 2]))$index$, space);
    comment on index postrider.dlq_entry_message is 'Investigations by a part of their message, root cause or frame: all of them, or only the ones opened in some eras.';
    return true;
exception when insufficient_privilege or undefined_file or feature_not_supported or invalid_parameter_value or undefined_object then
    raise notice 'postrider: no index of error messages (%); ask the administrator for the extension pg_trgm, then run select postrider.dlq_index_messages()', sqlerrm;
    return false;
end $$;
comment on function postrider.dlq_index_messages() is
'Makes the index by which investigations are found by a part of their message, root cause or frame, with the extension pg_trgm. False where that is missing or forbidden; finding is slower then.';
revoke all on function postrider.dlq_index_messages() from public;
select postrider.dlq_index_messages();

-- What PostgreSQL made for constraints and identities.
comment on index postrider.dlq_command_pkey is 'A command by its id.';
comment on sequence postrider.dlq_command_number_seq is 'Numbers of dlq_command.number.';
comment on index postrider.dlq_comment_pkey is 'A comment by its id.';
comment on sequence postrider.dlq_comment_dlq_comment_id_seq is 'Numbers of dlq_comment.dlq_comment_id.';
comment on index postrider.dlq_count_pkey is 'One count per group, reason, kind of subject and status.';
comment on index postrider.dlq_entry_pkey is 'An investigation by its id.';
comment on index postrider.dlq_fingerprint_pkey is 'What a fingerprint leads to.';
comment on index postrider.dlq_group_fingerprint_key is 'One group per fingerprint.';
comment on index postrider.dlq_group_pkey is 'A group by its id.';
comment on index postrider.dlq_hour_pkey is 'One count per group and hour.';
comment on index postrider.dlq_letter_pkey is 'A dead letter is recorded once.';
comment on index postrider.dlq_operation_item_pkey is 'The items of an operation, in the order in which they are treated.';
comment on index postrider.dlq_operation_pkey is 'An operation by its id.';
comment on index postrider.dlq_redrive_dlq_entry_uuid_generation_key is 'The redrives of an investigation, one per generation.';
comment on index postrider.dlq_redrive_pkey is 'A redrive by its id.';
