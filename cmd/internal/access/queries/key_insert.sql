insert into postrider.access_key (access_key_id, secret_hash, name, scopes, created_by, sources, expires_at)
values ($1, $2, $3, $4, $5, $7, now() + nullif($6::bigint, 0) * interval '1 microsecond')
returning access_key_id, name, scopes, sources, created_by, created_at, expires_at, last_used_at, revoked_at
