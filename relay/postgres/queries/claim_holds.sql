-- The holds that bear on the locked shards: those with parked events there, and every topic hold.
select h.hold_id, h.scope, h.topic, h.key, h.probes, h.draining, hs.shard, hs.returned_through
from postrider.outbox_hold_shard hs
join postrider.outbox_hold h using (hold_id)
where hs.shard = any (current_setting('postrider.claim')::smallint[])
union all
select h.hold_id, h.scope, h.topic, h.key, h.probes, h.draining, null, null
from postrider.outbox_hold h where h.scope = 'topic'
