-- Holds of single partitions, keys that stay halted, keys that crowd their shard, and letters that wait
-- for a time of their own.

alter table postrider.outbox_hold
    add column partition integer,
    add column partitions integer,
    drop constraint outbox_hold_scope_check,
    drop constraint outbox_hold_cause_check,
    drop constraint outbox_hold_key_named,
    add constraint outbox_hold_scope_check check (scope in ('key', 'partition', 'topic', 'dead_letter')),
    add constraint outbox_hold_cause_check check (cause in
        ('retry', 'infrastructure', 'route', 'halted', 'redrive', 'crowded', 'storm', 'commit_order')),
    add constraint outbox_hold_subject_named check (
        (scope = 'key') = (key is not null)
        and (scope = 'partition') = (partition is not null) and (scope = 'partition') = (partitions is not null)
        and coalesce(partition between 0 and partitions - 1, true));
comment on table postrider.outbox_hold is
'What cannot go to Kafka now: a key (an event of it waits for its retry, or was given up and halts the key), a partition (its leader or replicas are away), a topic (it is missing or refused), or the dead letters bound for a dead-letter topic. Events met under a hold are parked and come back in order when it ends.';
comment on column postrider.outbox_hold.scope is 'key: one key of a topic. partition: one partition of a topic. topic: a whole topic. dead_letter: exhausted events bound for this dead-letter topic.';
comment on column postrider.outbox_hold.partition is 'The held partition; null for the other scopes.';
comment on column postrider.outbox_hold.partitions is 'How many partitions the topic had then: keys belong to the held partition by this number, so that none changes sides while it is held.';
comment on column postrider.outbox_hold.cause is 'retry: a failed event waits for its next attempt. infrastructure: brokers, leaders or replicas away. route: topic missing or not authorised. halted: an event was given up and its key waits for somebody. redrive: that event is on its way again. crowded: the key has so many events waiting that they would keep the others of its shard waiting. storm: too many events of the topic were given up. commit_order: a transaction is open that may still commit earlier events.';
comment on column postrider.outbox_hold.next_probe_at is 'When the next event is let through to see whether the cause is gone; infinity waits for somebody.';

drop index postrider.outbox_hold_subject;
create unique index outbox_hold_subject on postrider.outbox_hold
    (topic, scope, coalesce(sha256(key), ''::bytea), coalesce(partition, -1), coalesce(partitions, -1));
comment on index postrider.outbox_hold_subject is 'One hold per key, partition, topic or dead-letter topic. Keys are hashed, because one may be longer than an index entry can be.';

drop index postrider.outbox_hold_topics;
create index outbox_hold_topics on postrider.outbox_hold (topic) where scope in ('topic', 'partition');
comment on index postrider.outbox_hold_topics is 'Holds of topics and partitions, which every claim must respect.';

comment on type postrider.outbox_state is
'Where an outbox event stands: pending (the relay may claim it), scheduled (waits for next_attempt_at), parked (waits for a hold on its key, partition or topic), exhausted (given up, on its way to the dead-letter topic, never again to its own topic unless somebody puts it back), published (acknowledged by its topic), dead_lettered (acknowledged by the dead-letter topic).';
comment on column postrider.outbox_event.next_attempt_at is 'When a scheduled event becomes pending again, or an exhausted one is offered to the dead-letter topic again.';

drop index postrider.outbox_event_exhausted;
create index outbox_event_exhausted on postrider.outbox_event
    (topic, (coalesce(next_attempt_at, '-infinity'::timestamptz)), id) where state = 'exhausted';
comment on index postrider.outbox_event_exhausted is 'Events on their way to the dead-letter topic, by topic and by when they may go.';

-- What a writer may write is checked when it is written. Asked again at every change, these cost the relay a
-- microsecond and a half for each event it marks.
alter table postrider.outbox_event
    drop constraint outbox_event_topic_valid,
    drop constraint outbox_event_headers_shape,
    drop constraint outbox_event_available_at_range,
    drop constraint outbox_event_consistent,
    add constraint outbox_event_topic_valid check (updated_at is not null
        or topic ~ '^[a-zA-Z0-9._-]+$' and octet_length(topic) <= 249 and topic <> '.' and topic <> '..') not valid,
    add constraint outbox_event_headers_shape check (updated_at is not null
        or jsonb_typeof(headers) in ('object', 'array')) not valid,
    add constraint outbox_event_available_at_range check (updated_at is not null
        or available_at >= '0001-01-01 00:00:00+00' and available_at < '9999-12-31 00:00:00+00') not valid,
    add constraint outbox_event_consistent check (
        (updated_at is not null or kind in ('event', 'task') and isfinite(created_at) and coalesce(max_attempts, 1) > 0)
        and (state = 'parked') = (hold_id is not null)
        and (state <> 'scheduled' or next_attempt_at is not null)) not valid;
alter table postrider.outbox_event validate constraint outbox_event_topic_valid;
alter table postrider.outbox_event validate constraint outbox_event_headers_shape;
alter table postrider.outbox_event validate constraint outbox_event_available_at_range;
alter table postrider.outbox_event validate constraint outbox_event_consistent;
comment on constraint outbox_event_available_at_range on postrider.outbox_event is 'An event that is never to go is not written: infinity would be an event that waits for ever and that nobody looks for. Years outside of 0001 to 9999 RFC 3339 cannot say, and so no JSON. -infinity says nothing that now() does not.';
comment on column postrider.outbox_event.last_error_class is 'Class of the last failure: record (tried again until the attempts are spent), permanent (can never be delivered as it is), or, of an event that was given up because it could not be sent for too long, infrastructure (brokers, leaders or replicas away) or route (topic missing or not authorised).';
comment on type postrider.dlq_reason is
'Why something was dead-lettered: staleness_timeout (a task stayed too long in a state, or an event could not be sent for longer than its topic allows), max_retries_exceeded (attempts spent), dependency_cycle_detected, worker_unavailable, manual_dlq (an operator''s command, such as postrider outbox skip), undeliverable (can never be sent as it is, for example too large), unclassified (a dead letter that does not say).';

-- What gives the order of a shard's events, or of those behind a hold. By "id + 0" rather than by id, which
-- nothing else is ordered by: statistics that were taken in a bad moment make the walk along the primary key
-- look as good, and it reads the events of all shards.
drop index postrider.outbox_event_claim;
create index outbox_event_claim on postrider.outbox_event (shard, (id + 0)) where state = 'pending';
comment on index postrider.outbox_event_claim is 'What the relay claims from: pending events in order, per shard. Of id + 0, so that no other index can take its place.';
drop index postrider.outbox_event_parked;
create index outbox_event_parked on postrider.outbox_event (hold_id, shard, (id + 0)) where state = 'parked';
comment on index postrider.outbox_event_parked is 'Events behind a hold, in the order in which they come back. Of id + 0, as that of the claims.';
