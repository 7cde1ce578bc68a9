-- Which of the events were dead-lettered and are of a key that is halted, and whether by them.
select e.id, h.event_id = e.event_id is true
from unnest($1::bigint[]) as w(id)
join postrider.outbox_event e on e.id = w.id and e.state::text = 'dead_lettered'
join postrider.outbox_hold h on h.topic = e.topic and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256(e.key)
    and coalesce(h.partition, -1) = -1 and coalesce(h.partitions, -1) = -1
where h.cause = 'halted' and not h.draining
order by e.id
