select h.scope, h.topic, h.key, h.cause, coalesce(h.error_code, ''), coalesce(h.error, ''), h.held_at, h.next_probe_at, h.probes, h.draining,
       case when h.scope = 'dead_letter' then (select count(*) from postrider.outbox_event e where e.state = 'exhausted')
            else (select count(*) from postrider.outbox_event e where e.hold_id = h.hold_id and e.state = 'parked') end
from postrider.outbox_hold h order by h.held_at limit $1
