-- A wait of null is for ever.
insert into postrider.outbox_hold (hold_id, scope, topic, key, partition, partitions, code, cause, error_code, error, event_id, probes,
    draining, next_probe_at)
select f.hold_id, f.scope, f.topic, f.key, f.partition, f.partitions, f.code, f.cause, f.error_code, f.error, f.event_id, f.probes, f.draining,
       coalesce(clock_timestamp() + f.wait * interval '1 microsecond', 'infinity')
from unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::int[], $6::int[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::uuid[], $12::int[],
            $13::bool[], $14::bigint[], $15::bool[])
     as f(hold_id, scope, topic, key, partition, partitions, code, cause, error_code, error, event_id, probes, draining, wait, answered)
order by f.hold_id
