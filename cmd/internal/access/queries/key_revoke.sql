update postrider.access_key set revoked_at = coalesce(revoked_at, now()) where access_key_id = $1
returning access_key_id, name, scopes, created_by, created_at, expires_at, last_used_at, revoked_at
