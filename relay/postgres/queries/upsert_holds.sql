-- In one order everywhere, so that two relays that meet the same fault wait and do not deadlock. A wait of
-- null is for ever.
insert into postrider.outbox_hold as h (scope, topic, key, partition, partitions, cause, error_code, error, event_id, probes, draining, next_probe_at)
select f.scope, f.topic, f.key, f.partition, f.partitions, f.cause, f.code, f.error, f.event_id, f.probes, f.draining,
       coalesce(clock_timestamp() + f.wait * interval '1 microsecond', 'infinity')
from unnest($1::text[], $2::text[], $3::bytea[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[], $9::uuid[], $10::int[], $11::bool[], $12::bigint[])
     as f(scope, topic, key, partition, partitions, cause, code, error, event_id, probes, draining, wait)
order by f.topic, f.scope, f.key, f.partition, f.partitions
on conflict (topic, scope, coalesce(sha256(key), ''::bytea), coalesce(partition, -1), coalesce(partitions, -1)) do update
-- A wait for commit order, by a worker that has not seen it, takes nothing from a hold that is there for a fault.
set (cause, error_code, error, event_id, held_at, probes, next_probe_at, draining) = (
    select h.cause, h.error_code, h.error, h.event_id, h.held_at, h.probes, h.next_probe_at, h.draining
    where excluded.cause = 'commit_order' and h.cause <> 'commit_order'
    union all
    select excluded.cause, excluded.error_code, excluded.error, excluded.event_id,
           -- How long a topic has been missing is not how long its brokers were away before.
           case when h.cause = excluded.cause then h.held_at else now() end,
           -- Whoever sends letters does not read the hold first, so the database counts for them.
           case when excluded.scope = 'dead_letter' then h.probes + 1 else excluded.probes end,
           excluded.next_probe_at, excluded.draining
    where excluded.cause <> 'commit_order' or h.cause = 'commit_order')
returning h.hold_id, h.scope, h.topic, h.key, coalesce(h.partition, 0), coalesce(h.partitions, 0)
