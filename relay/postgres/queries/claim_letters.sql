-- Locks exhausted events of the topics $1 that are due, up to $2 of each.
select e.id, e.event_id, e.topic, e.key, e.payload, e.headers, e.state::text, e.shard, e.attempts,
       coalesce(e.max_attempts, 0), e.episode, e.created_at, false,
       e.first_error_at, e.last_error_at, coalesce(e.last_error_class, ''), coalesce(e.last_error_code, ''),
       coalesce(e.last_error, ''), e.task_uuid
from unnest($1::text[]) t(topic)
cross join lateral (
    select * from postrider.outbox_event e
    where e.state = 'exhausted' and e.topic = t.topic
      and coalesce(e.next_attempt_at, '-infinity'::timestamptz) <= (select clock_timestamp())
    order by coalesce(e.next_attempt_at, '-infinity'::timestamptz), e.id
    limit $2
    for update of e skip locked
) e
