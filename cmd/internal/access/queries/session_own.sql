-- The other sessions of the person $1 of the session $2 that work, the newest first, each with how many there are.
select s.access_session_id, coalesce(s.access_key_id, ''), s.name, coalesce(k.scopes, s.scopes), coalesce(k.sources, s.sources), s.created_at, s.expires_at, s.last_used_at,
       count(*) over ()
from postrider.access_session s left join postrider.access_key k using (access_key_id)
where s.person = $1 and s.access_session_id <> $2
  and s.ended_at is null and s.expires_at > now() and s.last_used_at > now() - $3::bigint * interval '1 microsecond'
  and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
order by s.created_at desc, s.access_session_id
limit $4
