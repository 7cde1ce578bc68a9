-- A request that was lost with its process before it changed anything is taken over.
insert into postrider.access_answer as a (access_key_id, idempotency_key, request_hash, created_at) values ($1, $2, $3, clock_timestamp())
on conflict (access_key_id, idempotency_key) do update set created_at = excluded.created_at
where a.status is null and a.changed_action is null and a.request_hash = excluded.request_hash
  and a.created_at < now() - $4::bigint * interval '1 microsecond'
returning created_at
