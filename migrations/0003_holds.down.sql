drop index postrider.outbox_event_claim;
create index outbox_event_claim on postrider.outbox_event (shard, id) where state = 'pending';
drop index postrider.outbox_event_parked;
create index outbox_event_parked on postrider.outbox_event (hold_id, shard, id) where state = 'parked';
comment on index postrider.outbox_event_parked is 'Events behind a hold, in the order in which they come back.';
comment on index postrider.outbox_event_claim is 'What the relay claims from: pending events in order, per shard.';

alter table postrider.outbox_event
    drop constraint outbox_event_topic_valid,
    drop constraint outbox_event_headers_shape,
    drop constraint outbox_event_available_at_range,
    drop constraint outbox_event_consistent,
    add constraint outbox_event_topic_valid
        check (topic ~ '^[a-zA-Z0-9._-]+$' and octet_length(topic) <= 249 and topic <> '.' and topic <> '..'),
    add constraint outbox_event_headers_shape
        check (jsonb_typeof(headers) in ('object', 'array')),
    add constraint outbox_event_available_at_range
        check (available_at >= '0001-01-01 00:00:00+00' and available_at < '9999-12-31 00:00:00+00'),
    add constraint outbox_event_consistent check (
        kind in ('event', 'task') and isfinite(created_at)
        and coalesce(max_attempts, 1) > 0 and (state = 'parked') = (hold_id is not null)
        and (state <> 'scheduled' or next_attempt_at is not null));
comment on constraint outbox_event_available_at_range on postrider.outbox_event is 'An event that is never to go is not written: infinity would be an event that waits for ever and that nobody looks for. Years outside of 0001 to 9999 RFC 3339 cannot say, and so no JSON. -infinity says nothing that now() does not.';
comment on column postrider.outbox_event.last_error_class is 'Class of the last failure: record (tried again until the attempts are spent) or permanent (can never be delivered as it is).';
comment on type postrider.dlq_reason is
'Why something was dead-lettered: staleness_timeout (a task stayed too long in a state), max_retries_exceeded (attempts spent), dependency_cycle_detected, worker_unavailable, manual_dlq (an operator''s command), undeliverable (can never be sent as it is, for example too large), unclassified (a dead letter that does not say).';

drop index postrider.outbox_event_exhausted;
create index outbox_event_exhausted on postrider.outbox_event (id) where state = 'exhausted';
comment on index postrider.outbox_event_exhausted is 'Events on their way to the dead-letter topic.';
comment on column postrider.outbox_event.next_attempt_at is 'When a scheduled event becomes pending again.';
comment on type postrider.outbox_state is
'Where an outbox event stands: pending (the relay may claim it), scheduled (waits for next_attempt_at), parked (waits for a hold on its key or topic), exhausted (given up, on its way to the dead-letter topic, never again to its own topic), published (acknowledged by its topic), dead_lettered (acknowledged by the dead-letter topic).';

-- The events behind holds that the earlier schema cannot say come back; the relay meets their faults again.
update postrider.outbox_shard s set low_water = least(s.low_water, back.first), epoch = -abs(s.epoch)
from (select e.shard, min(e.id) - 1 as first from postrider.outbox_event e
      join postrider.outbox_hold h using (hold_id)
      where e.state = 'parked' and (h.scope = 'partition' or h.cause in ('halted', 'redrive', 'crowded', 'storm', 'commit_order'))
      group by e.shard) back
where s.shard = back.shard;
update postrider.outbox_event e set state = 'pending', hold_id = null, updated_at = now()
from postrider.outbox_hold h
where h.hold_id = e.hold_id and e.state = 'parked'
  and (h.scope = 'partition' or h.cause in ('halted', 'redrive', 'crowded', 'storm', 'commit_order'));
delete from postrider.outbox_hold
where scope = 'partition' or cause in ('halted', 'redrive', 'crowded', 'storm', 'commit_order');

drop index postrider.outbox_hold_topics;
create index outbox_hold_topics on postrider.outbox_hold (topic) where scope = 'topic';
comment on index postrider.outbox_hold_topics is 'Topic holds, which every claim must respect.';
drop index postrider.outbox_hold_subject;
alter table postrider.outbox_hold
    drop constraint outbox_hold_subject_named,
    drop constraint outbox_hold_scope_check,
    drop constraint outbox_hold_cause_check,
    drop column partition,
    drop column partitions,
    add constraint outbox_hold_scope_check check (scope in ('key', 'topic', 'dead_letter')),
    add constraint outbox_hold_cause_check check (cause in ('retry', 'infrastructure', 'route')),
    add constraint outbox_hold_key_named check ((scope = 'key') = (key is not null));
create unique index outbox_hold_subject on postrider.outbox_hold (topic, scope, coalesce(sha256(key), ''::bytea));
comment on index postrider.outbox_hold_subject is 'One hold per key, topic or dead-letter topic. Hashed, because a key may be longer than an index entry can be.';
comment on table postrider.outbox_hold is
'What cannot go to Kafka now: a key (an event of it waits for its retry), a topic (it is missing, refused or its brokers are away), or the dead letters bound for a dead-letter topic. Events met under a hold are parked and come back in order when it ends.';
comment on column postrider.outbox_hold.scope is 'key: one key of a topic. topic: a whole topic. dead_letter: exhausted events bound for this dead-letter topic.';
comment on column postrider.outbox_hold.cause is 'retry: a failed event waits for its next attempt. infrastructure: brokers, leaders or replicas away. route: topic missing or not authorised.';
comment on column postrider.outbox_hold.next_probe_at is 'When the next event is let through to see whether the cause is gone.';
