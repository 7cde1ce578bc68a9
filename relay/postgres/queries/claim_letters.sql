select e.id, e.event_id, e.topic, e.key, e.payload, e.headers, e.state::text, e.shard, e.attempts,
       coalesce(e.max_attempts, 0), e.episode, e.created_at, false,
       e.first_error_at, e.last_error_at, coalesce(e.last_error_class, ''), coalesce(e.last_error_code, ''),
       coalesce(e.last_error, ''), e.task_uuid
from postrider.outbox_event e
where e.state = 'exhausted'
  and not exists (select from postrider.outbox_hold h
                  where h.scope = 'dead_letter' and h.topic = $1 and h.next_probe_at > clock_timestamp())
order by e.id
limit $2
for update of e skip locked
