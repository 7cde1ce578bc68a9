-- An exhausted event has failed, whatever its attempts: it was skipped, too old, or could never be sent.
create or replace view postrider.v_outbox_event as
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
