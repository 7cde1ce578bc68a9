-- The $7 newest events before id $1 that the filter selects, of the $8 before it, and how far that was. So a page
-- costs the same whatever is filtered, and however wrong the statistics are.
with walked as materialized (
    (select e.id from postrider.outbox_event e where e.id < $1::bigint order by e.id desc limit $8::int)
    union
    (select x.id from postrider.outbox_exception x where x.id < $1::bigint order by x.id desc limit $8::int)
    order by id desc limit $8::int
), found as materialized (
    select v.id
    from postrider.v_outbox_event v
    where v.id < $1::bigint and v.id >= (select min(w.id) from walked w)
      and ($2::text = '' or v.status = $2) and ($3::text = '' or v.topic = $3)
      and ($4::uuid is null or v.event_id = $4) and ($5::uuid is null or v.task_uuid = $5) and ($6::bigint is null or v.id = $6)
    order by v.id desc limit $7::int
)
select w.reached, w.more, f.*
from (select coalesce(min(id), 0) as reached, count(*) >= $8::int as more from walked) w
-- Only of these: when an event was sent is looked up among the receipts.
left join (
    select v.id, v.event_id, v.kind, v.topic, v.key, v.status, v.state, v.attempts, v.max_attempts, v.episode,
           v.last_error_class, v.last_error_code, v.last_error, v.created_at, v.available_at, v.next_attempt_at, v.sent_at,
           v.first_error_at, v.last_error_at, v.updated_at, v.idempotency_key, v.task_uuid, v.hold_id, v.payload_bytes::bigint,
           v.locked_by, v.locked_at
    from postrider.v_outbox_event v where v.id = any (array(select f.id from found f))
) f on true
order by f.id desc
