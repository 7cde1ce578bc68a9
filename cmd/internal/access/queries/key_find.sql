-- Whether it works is told by the database's clock, the same for all processes. Its last use is noted once a
-- minute, so that reading costs no write.
select access_key_id, name, scopes, sources, created_by, created_at, expires_at, last_used_at, revoked_at, secret_hash,
       revoked_at is null and (expires_at is null or expires_at > now()),
       last_used_at > now() - interval '1 minute' is true
from postrider.access_key where access_key_id = $1
