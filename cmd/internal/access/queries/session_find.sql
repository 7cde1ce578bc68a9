-- Whether it works is told by the database's clock, the same for all processes. Its last use is noted once a
-- minute, so that reading costs no write.
select s.access_session_id, coalesce(s.access_key_id, ''), s.signed_in_by, s.name, s.person, coalesce(k.scopes, s.scopes), coalesce(k.sources, s.sources), s.created_at, s.expires_at, s.secret_hash,
       s.ended_at is null and s.expires_at > now() and s.last_used_at > now() - $2::bigint * interval '1 microsecond'
           and k.revoked_at is null and (k.expires_at is null or k.expires_at > now()),
       s.last_used_at > now() - interval '1 minute'
from postrider.access_session s left join postrider.access_key k using (access_key_id)
where s.access_session_id = $1
