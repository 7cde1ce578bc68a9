-- Which of the events were given up and are of a key that is halted, and whether by them. An event whose dead letter
-- the relay has yet to settle halts its key, too. Where no key is halted nothing is read.
select e.id, h.event_id = e.event_id is true
from unnest($1::bigint[]) as w(id)
cross join lateral (select * from postrider.outbox_exception x where x.id = w.id and x.state in ('exhausted', 'dead_lettered') offset 0) e
join postrider.outbox_hold h on h.topic = e.topic and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256(e.key)
    and coalesce(h.partition, -1) = -1 and coalesce(h.partitions, -1) = -1 and coalesce(h.code, '') = ''
where h.cause = 'halted' and not h.draining and h.asked is null
  and (select exists (select from postrider.outbox_hold any_hold where any_hold.cause = 'halted' and not any_hold.draining))
order by e.id
