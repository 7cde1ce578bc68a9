-- Locks exhausted events of the topics $1 that are due, up to $2 of each. One that is to wait for longer than $3
-- microseconds is due: the clock was put back.
select e.id, e.event_id, e.topic, e.key, e.payload, coalesce(e.headers, '{}'), e.attempts,
       coalesce(e.max_attempts, 0), e.episode, e.created_at,
       e.first_error_at, e.last_error_at, coalesce(e.last_error_class, ''), coalesce(e.last_error_code, ''),
       coalesce(e.last_error, ''), e.task_uuid, coalesce(e.kind, 'event'), e.partition, e.timestamp
from unnest($1::text[]) t(topic)
cross join lateral (
    select * from (select * from postrider.outbox_exception e
    where e.state = 'exhausted' and e.topic = t.topic
      and coalesce(e.next_attempt_at, '-infinity'::timestamptz) <= (select clock_timestamp())
    order by coalesce(e.next_attempt_at, '-infinity'::timestamptz), e.id
    limit $2
    for update of e skip locked) due
    union all
    select * from (select * from postrider.outbox_exception e
    where e.state = 'exhausted' and e.topic = t.topic
      and coalesce(e.next_attempt_at, '-infinity'::timestamptz) > (select clock_timestamp()) + $3::bigint * interval '1 microsecond'
    order by coalesce(e.next_attempt_at, '-infinity'::timestamptz), e.id
    limit $2
    for update of e skip locked) due
) e
limit $2 * cardinality($1::text[])
