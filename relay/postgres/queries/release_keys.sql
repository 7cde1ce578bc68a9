-- Lets the keys go that these events halt: what waits behind them comes back. Holds are locked in the order in which
-- the relay takes them.
with halted as materialized (
    select h.hold_id
    from unnest($1::bigint[]) as w(id)
    join postrider.outbox_event e on e.id = any (array[w.id])
    join postrider.outbox_hold h on h.topic = e.topic and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256(e.key)
        and coalesce(h.partition, -1) = -1 and coalesce(h.partitions, -1) = -1
    where h.event_id = e.event_id and h.cause = 'halted' and not h.draining
    order by h.topic, h.scope, h.key
    for update of h
)
update postrider.outbox_hold h set next_probe_at = clock_timestamp(), draining = true
from halted t where h.hold_id = t.hold_id
