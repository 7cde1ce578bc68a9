-- Looks at the $2 given-up events after event id $1: which of them were dead-lettered $3 microseconds ago or
-- more and are needed by no investigation, how far the walk came, and whether there is more. An event that halts
-- its key stays: it may be put back, and its hold would be about nothing.
with walked as materialized (
    select e.id, e.event_id, e.episode,
           e.state = 'dead_lettered' and e.sent_at <= now() - $3::bigint * interval '1 microsecond'
           and not exists (select from postrider.outbox_hold h
                           where h.topic = e.topic and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256(e.key)
                             and coalesce(h.partition, -1) = -1 and coalesce(h.partitions, -1) = -1
                             and h.cause = 'halted' and not h.draining and h.event_id = e.event_id) as old
    from postrider.outbox_event e
    where e.state in ('exhausted', 'dead_lettered')
      and e.event_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000')
    order by e.event_id limit $2::int
)
select coalesce(array_agg(w.id) filter (where w.closed), '{}'), coalesce(array_agg(w.episode) filter (where w.closed), '{}'),
       max(w.event_id::text), count(*) >= $2::int
from (select *, case when old then postrider.dlq_event_closed(event_id, episode) else false end as closed from walked) w
