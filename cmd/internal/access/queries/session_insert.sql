-- A session of a key ends with it, at the latest.
insert into postrider.access_session (access_session_id, secret_hash, access_key_id, signed_in_by, name, scopes, sources, person, expires_at)
select $1, $2, $3, $4, $5, $6, $9, $8, least(now() + $7::bigint * interval '1 microsecond',
                                 (select k.expires_at from postrider.access_key k where k.access_key_id = $3))
returning created_at, expires_at
