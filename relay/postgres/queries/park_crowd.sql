-- Looks for others than topic $3 and key $4 among the $6 events of shard $1 behind id $7. When there are any, those of
-- that key among the $5 events behind id $2 are parked, so that the others need not wait for all of them. A hold that
-- the key has stays as it is, and so do the events that it has let through: later ones that it let through may wait
-- elsewhere. Delayed ones stay: as the probe of a hold they would prove nothing.
-- Says how many were parked; up to which id there are no others, as far as was looked; and at how many events it had to
-- look to find none.
with other as materialized (
    select l.id
    from (select e.id, e.topic, e.key from postrider.outbox_event e
          where e.shard = $1 and e.state = 'pending' and e.id > $7::bigint and e.id + 0 > $7::bigint order by e.id + 0 limit $6::bigint) l
    where l.topic <> $3 or l.key is distinct from $4 limit 1
), alone as materialized ( -- asked only where there is no other: then the way to the end of the look was made once already
    select count(*) as events, max(l.id) as through
    from (select e.id from postrider.outbox_event e
          where e.shard = $1 and e.state = 'pending' and e.id > $7::bigint and e.id + 0 > $7::bigint and (select count(*) from other) = 0
          order by e.id + 0 limit $6::bigint) l
), through as materialized (
    select coalesce((select hs.returned_through from postrider.outbox_hold h
                     join postrider.outbox_hold_shard hs on hs.hold_id = h.hold_id and hs.shard = $1
                     where h.topic = $3 and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256($4)), $2) as id
), ahead as materialized (
    select e.id, e.topic = $3 and e.key is not distinct from $4 and e.id > (select id from through)
               and (e.next_attempt_at is not null or e.available_at <= greatest(clock_timestamp(), e.created_at)) as crowd
    from postrider.outbox_event e
    where e.shard = $1 and e.state = 'pending' and e.id > $2 and e.id + 0 > $2 and (select count(*) from other) > 0
    order by e.id + 0 limit $5
), held as (
    insert into postrider.outbox_hold as h (scope, topic, key, cause, error_code, error, next_probe_at, draining)
    select 'key', $3, $4, 'crowded', 'CROWDED',
           'so many events of this key wait that they come in turns with those of other keys', clock_timestamp(), true
    where (select true from ahead where crowd limit 1)
    on conflict (topic, scope, coalesce(sha256(key), ''::bytea), coalesce(partition, -1), coalesce(partitions, -1))
    do update set held_at = h.held_at
    returning h.hold_id
), known as (
    insert into postrider.outbox_hold_shard (hold_id, shard, returned_through)
    select hold_id, $1, $2 from held on conflict (hold_id, shard) do nothing
), parked as (
    update postrider.outbox_event e set state = 'parked', hold_id = held.hold_id, updated_at = now()
    from ahead, held where ahead.crowd and e.id = any (array[ahead.id]) and e.state::text = 'pending'
    returning 1
)
select (select count(*) from parked), coalesce((select o.id - 1 from other o), (select a.through from alone a), $7::bigint), (select a.events from alone a)
