-- Up to $1 holds, oldest first, each with how many events are parked behind it, up to 100001; of a dead-letter topic none
-- are, see count_letters.
select h.hold_id, h.scope, h.topic, h.key, h.partition, h.partitions, coalesce(h.code, ''), h.cause, coalesce(h.error_code, ''),
    coalesce(h.error, ''), h.held_at,
       nullif(h.next_probe_at, 'infinity'), h.probes, h.draining, coalesce(h.asked, ''),
       (select count(*) from (select from postrider.outbox_exception e where e.hold_id = h.hold_id limit 100001) counted),
       h.event_id,
       (select e.id from postrider.outbox_exception e where e.event_id = h.event_id and e.state in ('exhausted', 'dead_lettered') limit 1)
from postrider.outbox_hold h
where h.topic = coalesce($2, h.topic) and h.cause = coalesce($3, h.cause) and h.hold_id = coalesce($6, h.hold_id)
  and ($4::timestamptz is null or (h.held_at, h.hold_id) > ($4, $5::bigint))
order by h.held_at, h.hold_id limit $1
