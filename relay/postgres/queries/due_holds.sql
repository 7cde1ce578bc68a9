-- Holds that are draining or due for a probe, with the shards to return events to: every one of a
-- draining hold, the first of one that is probed. A null shard is a hold with nothing behind it.
select h.hold_id, h.draining, h.cause, hs.shard
from (select * from postrider.outbox_hold where scope <> 'dead_letter' and next_probe_at <= clock_timestamp()
      order by next_probe_at limit 500) h
left join lateral (
    select hs.shard from postrider.outbox_hold_shard hs where hs.hold_id = h.hold_id
    order by hs.shard limit (case when h.draining then 64 else 1 end)) hs on true
order by h.hold_id, hs.shard
