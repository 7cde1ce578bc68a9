-- In one order everywhere, so that two relays that meet the same fault wait and do not deadlock.
insert into postrider.outbox_hold as h (scope, topic, key, cause, error_code, error, event_id, probes, next_probe_at)
select f.scope, f.topic, f.key, f.cause, f.code, f.error, f.event_id, f.probes,
       clock_timestamp() + f.wait * interval '1 microsecond'
from unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::int[], $9::bigint[])
     as f(scope, topic, key, cause, code, error, event_id, probes, wait)
order by f.topic, f.scope, f.key
on conflict (topic, scope, coalesce(sha256(key), ''::bytea)) do update
set cause = excluded.cause, error_code = excluded.error_code, error = excluded.error, event_id = excluded.event_id,
    -- Whoever sends letters does not read the hold first, so the database counts for them.
    probes = case when excluded.scope = 'dead_letter' then h.probes + 1 else excluded.probes end, next_probe_at = excluded.next_probe_at, draining = false
returning h.hold_id, h.scope, h.topic, h.key
