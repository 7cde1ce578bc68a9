-- Looks at the $5 events of shard $1 behind id $2. When there are others than those of topic $3 and key $4,
-- these are parked, so that the others need not wait for all of them. A hold that the key has stays as it is.
with ahead as materialized (
    select e.id, e.topic = $3 and e.key is not distinct from $4 as crowd
    from postrider.outbox_event e
    where e.shard = $1 and e.state = 'pending' and e.id > $2 order by e.id limit $5
), held as (
    insert into postrider.outbox_hold as h (scope, topic, key, cause, error_code, error, next_probe_at, draining)
    select 'key', $3, $4, 'crowded', 'CROWDED',
           'so many events of this key wait that they come in turns with those of other keys', clock_timestamp(), true
    where (select true from ahead where not crowd limit 1)
    on conflict (topic, scope, coalesce(sha256(key), ''::bytea), coalesce(partition, -1), coalesce(partitions, -1))
    do update set held_at = h.held_at
    returning h.hold_id
), known as (
    insert into postrider.outbox_hold_shard (hold_id, shard, returned_through)
    select hold_id, $1, $2 from held on conflict (hold_id, shard) do nothing
)
update postrider.outbox_event e set state = 'parked', hold_id = held.hold_id, updated_at = now()
from ahead, held where ahead.crowd and e.id = ahead.id and e.state::text = 'pending'
