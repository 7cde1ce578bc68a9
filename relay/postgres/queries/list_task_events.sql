-- The $6 newest events before id $1 of a task, of the $7 before it that are of the task, and how far that was.
with walked as materialized (
    (select f.id from postrider.outbox_find_of_task($2::uuid, $1::bigint, $7::int) f(id))
    union
    (select f.id from (select x.id from postrider.outbox_exception x where x.task_uuid = $2::uuid offset 0) f
     where f.id < $1::bigint order by f.id desc limit $7::int)
    order by id desc limit $7::int
), found as (
    select v.id, v.event_id, v.kind, v.topic, v.key, v.status, v.state, v.attempts, v.max_attempts, v.episode,
           v.last_error_class, v.last_error_code, v.last_error, v.created_at, v.available_at, v.next_attempt_at, v.sent_at,
           v.first_error_at, v.last_error_at, v.updated_at, v.idempotency_key, v.task_uuid, v.hold_id, v.payload_bytes::bigint,
           v.locked_by, v.locked_at
    from postrider.v_outbox_event v
    where v.id = any (array(select w.id from walked w))
      and ($3::text = '' or v.status = $3) and ($4::text = '' or v.topic = $4) and ($5::uuid is null or v.event_id = $5)
    order by v.id desc limit $6::int
)
select w.reached, w.more, f.*
from (select coalesce(min(id), 0) as reached, count(*) >= $7::int as more from walked) w
left join found f on true
order by f.id desc
