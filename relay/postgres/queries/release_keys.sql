-- Lets the keys go that these events halt: what waits behind them comes back.
update postrider.outbox_hold h set next_probe_at = clock_timestamp(), draining = true
from unnest($1::bigint[]) as w(id)
join postrider.outbox_event e on e.id = w.id
where h.event_id = e.event_id and h.topic = e.topic and h.scope = 'key' and h.cause = 'halted' and not h.draining
