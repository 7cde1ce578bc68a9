-- Looks at the $5 events of shard $1 behind id $2. When there are others than those of topic $3 and key $4,
-- these are parked, so that the others need not wait for all of them. A hold that the key has stays as it
-- is, and so do the events that it has let through: later ones that it let through may wait elsewhere.
-- Delayed ones stay: as the probe of a hold they would prove nothing.
with through as materialized (
    select coalesce((select hs.returned_through from postrider.outbox_hold h
                     join postrider.outbox_hold_shard hs on hs.hold_id = h.hold_id and hs.shard = $1
                     where h.topic = $3 and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256($4)), $2) as id
), ahead as materialized (
    select e.id, e.topic = $3 and e.key is not distinct from $4 and e.id > (select id from through)
               and (e.next_attempt_at is not null or e.available_at <= greatest(clock_timestamp(), e.created_at)) as crowd
    from postrider.outbox_event e
    where e.shard = $1 and e.state = 'pending' and e.id > $2 and e.id + 0 > $2 order by e.id + 0 limit $5
), held as (
    insert into postrider.outbox_hold as h (scope, topic, key, cause, error_code, error, next_probe_at, draining)
    select 'key', $3, $4, 'crowded', 'CROWDED',
           'so many events of this key wait that they come in turns with those of other keys', clock_timestamp(), true
    where (select true from ahead where not crowd limit 1) and (select true from ahead where crowd limit 1)
    on conflict (topic, scope, coalesce(sha256(key), ''::bytea), coalesce(partition, -1), coalesce(partitions, -1))
    do update set held_at = h.held_at
    returning h.hold_id
), known as (
    insert into postrider.outbox_hold_shard (hold_id, shard, returned_through)
    select hold_id, $1, $2 from held on conflict (hold_id, shard) do nothing
)
update postrider.outbox_event e set state = 'parked', hold_id = held.hold_id, updated_at = now()
from ahead, held where ahead.crowd and e.id = any (array[ahead.id]) and e.state::text = 'pending'
