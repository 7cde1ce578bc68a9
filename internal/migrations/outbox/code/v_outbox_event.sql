-- Rows are looked up one by one, so that no statistics make PostgreSQL join whole tables. To the planner each such look costs
-- as much as two pages from a disk. It would compile the view first (jit_above_cost), for seconds, to read a log of a few
-- thousand rows. So each branch has a condition that is always true and makes the planner expect fewer rows.
create or replace view postrider.v_outbox_event as
-- What did not simply go. Where the log does not have the row any more, its own copy is all there is.
select x.id, x.event_id, coalesce(x.kind, e.kind::text, 'event') as kind, x.topic, coalesce(x.key, e.key) as key,
       case when x.state = 'dead_lettered' then 'dead_lettered'
            when x.state = 'exhausted' then 'failed'
            when x.sending_since is not null then 'processing'
            when x.attempts > 0 then 'failed'
            else 'pending' end as status,
       x.state::text as state, x.attempts,
       coalesce(x.max_attempts, e.max_attempts::integer, postrider.outbox_task_attempts(coalesce(x.task_uuid, e.task_uuid)),
                (select r.max_attempts::integer from postrider.outbox_attempt_rule r where x.topic ~ r.topics order by r.place desc limit 1)) as max_attempts,
       x.episode,
       x.last_error_class, x.last_error_code, x.last_error,
       coalesce(x.created_at, e.created_at) as created_at, coalesce(e.available_at::timestamptz, x.created_at, e.created_at) as available_at,
       coalesce(x.next_attempt_at, case when isfinite(h.next_probe_at) then h.next_probe_at end) as next_attempt_at,
       x.sent_at, x.first_error_at, x.last_error_at, x.updated_at,
       coalesce(x.idempotency_key, e.idempotency_key) as idempotency_key, coalesce(x.task_uuid, e.task_uuid) as task_uuid, x.hold_id,
       octet_length(case when x.copied then x.payload else e.payload::bytea end) as payload_bytes,
       case when x.sending_since is not null then (select l.worker from postrider.outbox_leader l where l.leads) end as locked_by,
       case when x.sending_since is not null and (select l.leads from postrider.outbox_leader l) then x.sending_since end as locked_at,
       case when x.copied then x.partition else e.partition::integer end as partition,
       case when x.copied then x.timestamp else e.timestamp::timestamptz end as timestamp
from postrider.outbox_exception x
left join lateral (select * from postrider.outbox_event o where o.id = x.id offset 0) e on true
left join postrider.outbox_hold h on h.hold_id = x.hold_id
union all
-- Visible in a gap: the leader reads it next. The gaps are a value of their own, and not a join: they are made once of the
-- newest receipts, and not for each event.
select e.id, e.event_id, e.kind::text, e.topic::text, e.key, 'pending', 'pending', 0,
       coalesce(e.max_attempts::integer, postrider.outbox_task_attempts(e.task_uuid),
                (select r.max_attempts::integer from postrider.outbox_attempt_rule r where e.topic::text ~ r.topics order by r.place desc limit 1)),
       0, null, null, null, e.created_at,
       coalesce(e.available_at::timestamptz, e.created_at), null, null, null, null, e.created_at, e.idempotency_key, e.task_uuid, null,
       octet_length(e.payload::bytea),
       (select l.worker from postrider.outbox_leader l where l.leads), (select l.at from postrider.outbox_leader l where l.leads),
       e.partition::integer, e.timestamp::timestamptz
from unnest((select p.gaps from postrider.outbox_progress p)) g
join postrider.outbox_event e on e.id >= lower(g) and e.id < upper(g)
where g && '(,)'::int8range
  and (select x.id from postrider.outbox_exception x where x.id = e.id) is null
union all
-- Behind the position: the log has it before it.
select e.id, e.event_id, e.kind::text, e.topic::text, e.key, 'pending', 'pending', 0,
       coalesce(e.max_attempts::integer, postrider.outbox_task_attempts(e.task_uuid),
                (select r.max_attempts::integer from postrider.outbox_attempt_rule r where e.topic::text ~ r.topics order by r.place desc limit 1)),
       0, null, null, null, e.created_at,
       coalesce(e.available_at::timestamptz, e.created_at), null, null, null, null, e.created_at, e.idempotency_key, e.task_uuid, null,
       octet_length(e.payload::bytea),
       (select l.worker from postrider.outbox_leader l where l.leads), (select l.at from postrider.outbox_leader l where l.leads),
       e.partition::integer, e.timestamp::timestamptz
from postrider.outbox_event e
where e.id > (select p.position from postrider.outbox_progress p) and e.id <= 9223372036854775807
  and (select x.id from postrider.outbox_exception x where x.id = e.id) is null
union all
-- The rest went. One that was an exception before went later than its receipt says.
select e.id, e.event_id, e.kind::text, e.topic::text, e.key, 'succeeded', 'published', 0,
       coalesce(e.max_attempts::integer, postrider.outbox_task_attempts(e.task_uuid),
                (select r.max_attempts::integer from postrider.outbox_attempt_rule r where e.topic::text ~ r.topics order by r.place desc limit 1)),
       0, null, null, null, e.created_at,
       coalesce(e.available_at::timestamptz, e.created_at), null,
       -- The newest by max: for an order the planner would go along the primary key, past every receipt there is.
       coalesce((select max(r.at) from postrider.outbox_receipt r where r.returned @> e.id),
                -- By position alone, the order of an index: to sort the receipts of one position, all behind it would be read.
                (select r.at from postrider.outbox_receipt r where r.position >= e.id and r.first_id <= e.id and r.events @> e.id
                 order by r.position limit 1)),
       null, null, e.created_at, e.idempotency_key, e.task_uuid, null, octet_length(e.payload::bytea), null, null,
       e.partition::integer, e.timestamp::timestamptz
from postrider.outbox_event e
where e.id <= (select p.position from postrider.outbox_progress p) and e.id >= -9223372036854775808
  and not e.id <@ (select p.gaps from postrider.outbox_progress p)
  and (select x.id from postrider.outbox_exception x where x.id = e.id) is null;
comment on view postrider.v_outbox_event is
'Outbox events for people: status in the words pending, processing, succeeded, failed (an attempt failed and it waits for the next, or it was given up and its dead letter is on its way), dead_lettered; the finer state beside it; when the next attempt is, also of one that waits behind its key; and which relay has it, since when. max_attempts are its own, else those of its task''s template, else those of the topic (outbox_attempt_rule). That is the leader, for an event that it sends just now and for one that the log has before it; null while no relay leads, and for an event that waits for its time or behind a hold.';
