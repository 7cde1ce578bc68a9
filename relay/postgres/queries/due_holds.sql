-- Up to $3 holds that are draining or due for a probe, behind the one that was due at $1 and has the id $2, and
-- not due later than $4: each with whether it is in commit order and the shards in which it has parked events. The
-- clock is a subquery: see due_shards.
select h.hold_id, h.next_probe_at, h.cause = 'commit_order',
       array(select hs.shard from postrider.outbox_hold_shard hs where hs.hold_id = h.hold_id order by hs.shard)
from (select p.hold_id, p.next_probe_at, p.cause from postrider.outbox_hold p
      where p.scope <> 'dead_letter' and p.next_probe_at <= (select least(clock_timestamp(), $4::timestamptz))
        and p.next_probe_at >= coalesce($1::timestamptz, '-infinity')
        and (p.next_probe_at, p.hold_id) > (coalesce($1::timestamptz, '-infinity'), $2::bigint)
      order by p.next_probe_at, p.hold_id limit $3) h
order by h.next_probe_at, h.hold_id
