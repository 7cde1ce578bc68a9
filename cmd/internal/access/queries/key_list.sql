select access_key_id, name, scopes, sources, created_by, created_at, expires_at, last_used_at, revoked_at
from postrider.access_key order by created_at desc, access_key_id
