insert into postrider.access_link (access_link_id, secret_hash, access_key_id, name, scopes, created_by, sources, expires_at)
values ($1, $2, $3, $4, $5, $6, $8, now() + $7::bigint * interval '1 microsecond')
returning expires_at
