select h.hold_id, h.scope, h.topic, h.key, coalesce(h.partition, 0), coalesce(h.partitions, 0), coalesce(h.code, ''), h.cause,
       coalesce(h.error_code, ''), coalesce(h.error, ''), h.event_id, (extract(epoch from clock_timestamp() - h.held_at) * 1000000)::bigint,
           h.probes, h.draining
from postrider.outbox_hold h where h.scope <> 'dead_letter'
