-- Holds of dead-letter topics, which any relay puts in place and renews. In one order everywhere, so that two relays that
-- meet the same fault wait and do not deadlock.
insert into postrider.outbox_hold as h (scope, topic, key, partition, partitions, code, cause, error_code, error, event_id, probes,
    draining, next_probe_at)
select f.scope, f.topic, f.key, f.partition, f.partitions, f.code, f.cause, f.error_code, f.error, f.event_id, f.probes, f.draining,
       coalesce(clock_timestamp() + f.wait * interval '1 microsecond', 'infinity')
from unnest($1::text[], $2::text[], $3::bytea[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[], $9::text[], $10::uuid[], $11::int[],
            $12::bool[], $13::bigint[], $14::bool[])
     as f(scope, topic, key, partition, partitions, code, cause, error_code, error, event_id, probes, draining, wait, answered)
order by f.topic
on conflict (topic, scope, coalesce(sha256(key), ''::bytea), coalesce(partition, -1), coalesce(partitions, -1), coalesce(code, '')) do update
-- How long a topic has been missing is not how long its brokers were away before.
set held_at = case when h.cause = excluded.cause then h.held_at else now() end, cause = excluded.cause, error_code = excluded.error_code,
    error = excluded.error, event_id = excluded.event_id, probes = h.probes + 1, next_probe_at = excluded.next_probe_at
