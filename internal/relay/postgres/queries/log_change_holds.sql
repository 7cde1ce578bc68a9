update postrider.outbox_hold h
set held_at = case when h.cause = f.cause then h.held_at else now() end, cause = f.cause, error_code = f.error_code, error = f.error,
    event_id = f.event_id,
    probes = f.probes, draining = f.draining, next_probe_at = coalesce(clock_timestamp() + f.wait * interval '1 microsecond', 'infinity'),
    asked = case when f.answered then null else h.asked end
from unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::int[], $6::int[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::uuid[], $12::int[],
            $13::bool[], $14::bigint[], $15::bool[])
     as f(hold_id, scope, topic, key, partition, partitions, code, cause, error_code, error, event_id, probes, draining, wait, answered)
where h.hold_id = any (array[f.hold_id])
