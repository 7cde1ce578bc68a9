-- The $7 events of task $5 next to id $1 that the filter of list_events.sql selects, of the $8 next of the task, and how far
-- that was.
-- Events above the position are looked for among the $8 next.
with ids as materialized (
    (select t.id from postrider.outbox_task_event t where t.task_uuid = $5::uuid and t.id </*way*/ $1::bigint order by t.id desc/*way*/ limit $8::int)
    union
    (select x.id from postrider.outbox_exception x where x.task_uuid = $5::uuid and x.id </*way*/ $1::bigint order by x.id desc/*way*/ limit $8::int)
    union
    (select e.id from (select e.id, e.task_uuid from postrider.outbox_event e where e.id > (select p.position from postrider.outbox_progress p)
                       order by e.id limit $8::int) e
     where e.task_uuid = $5::uuid and e.id </*way*/ $1::bigint)
    order by id desc/*way*/ limit $8::int
), found as materialized (
    select v.id
    from (select i.id from ids i order by i.id desc/*way*/) i
    cross join lateral (select v.id, v.status, v.topic, v.event_id, v.state, v.key, v.last_error_code, v.hold_id, v.created_at from postrider.v_outbox_event v where v.id = i.id limit 1) v
    where ($2::text = '' or v.status = $2) and ($3::text = '' or v.topic = $3) and ($4::uuid is null or v.event_id = $4)
      and ($6::bigint is null or v.id = $6)
      and ($9::text = '' or v.state = $9) and ($10::bytea is null or v.key = $10) and ($11::text = '' or v.last_error_code = $11)
      and ($12::bigint is null or v.hold_id = $12) and ($13::tstzrange is null or v.created_at <@ $13)
    order by v.id desc/*way*/ limit $7::int
)
select w.reached, w.more and not coalesce((select e.created_at </*way*/ $14::timestamptz from postrider.outbox_event e where e.id = w.reached), false), f.*
from (select coalesce(min/*way*/(id), 0) as reached, count(*) >= $8::int as more from ids) w
-- Only of these: when an event was sent is looked up among the receipts.
left join (
    select v.id, v.event_id, v.kind, v.topic, v.key, v.status, v.state, v.attempts, v.max_attempts, v.episode,
           v.last_error_class, v.last_error_code, v.last_error, v.created_at, v.available_at, v.next_attempt_at, v.sent_at,
           v.first_error_at, v.last_error_at, v.updated_at, v.idempotency_key, v.task_uuid, v.hold_id, v.payload_bytes::bigint,
           v.locked_by, v.locked_at
    from postrider.v_outbox_event v where v.id = any (array(select f.id from found f))
) f on true
order by f.id desc/*way*/
