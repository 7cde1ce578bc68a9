-- The $7 events next to id $1 that the filter selects, of the $8 next to it, and how far that was: the newest before it, or,
-- with the words of the order turned, the oldest behind it. So a page costs the same whatever is filtered, and however wrong
-- the statistics are. If $15 says that only exceptions can fit, the log is not looked through; the events behind a hold ($12)
-- have an index. Nothing further on fits when the event that was reached is past $14.
with walked as materialized (
    (select e.id from postrider.outbox_event e where not $15::boolean and e.id </*way*/ $1::bigint order by e.id desc/*way*/ limit $8::int)
    union
    (select x.id from postrider.outbox_exception x where $12::bigint is null and x.id </*way*/ $1::bigint order by x.id desc/*way*/ limit $8::int)
    union
    (select x.id from postrider.outbox_exception x where x.hold_id = $12::bigint and x.id </*way*/ $1::bigint order by x.id desc/*way*/ limit $8::int)
    order by id desc/*way*/ limit $8::int
), found as materialized (
    select v.id
    from postrider.v_outbox_event v
    where v.id </*way*/ $1::bigint and v.id >=/*way*/ (select min/*way*/(w.id) from walked w)
      and ($2::text = '' or v.status = $2) and ($3::text = '' or v.topic = $3)
      and ($4::uuid is null or v.event_id = $4) and ($5::uuid is null or v.task_uuid = $5) and ($6::bigint is null or v.id = $6)
      and ($9::text = '' or v.state = $9) and ($10::bytea is null or v.key = $10) and ($11::text = '' or v.last_error_code = $11)
      and ($12::bigint is null or v.hold_id = $12) and ($13::tstzrange is null or v.created_at <@ $13)
    order by v.id desc/*way*/ limit $7::int
)
select w.reached, w.more and not coalesce((select e.created_at </*way*/ $14::timestamptz from postrider.outbox_event e where e.id = w.reached), false), f.*
from (select coalesce(min/*way*/(id), 0) as reached, count(*) >= $8::int as more from walked) w
-- Only of these: when an event was sent is looked up among the receipts.
left join (
    select v.id, v.event_id, v.kind, v.topic, v.key, v.status, v.state, v.attempts, v.max_attempts, v.episode,
           v.last_error_class, v.last_error_code, v.last_error, v.created_at, v.available_at, v.next_attempt_at, v.sent_at,
           v.first_error_at, v.last_error_at, v.updated_at, v.idempotency_key, v.task_uuid, v.hold_id, v.payload_bytes::bigint,
           v.locked_by, v.locked_at
    from postrider.v_outbox_event v where v.id = any (array(select f.id from found f))
) f on true
order by f.id desc/*way*/
