-- The working sessions of the person $1 that have the ids $2; without ids, all but the one that asks. Sessions of other people
-- stay as they are, whatever ids are given.
update postrider.access_session s set ended_at = now()
where s.ended_at is null and s.expires_at > now() and s.last_used_at > now() - $4::bigint * interval '1 microsecond'
  and s.person = $1 and case when $2::text[] is null then s.access_session_id <> $3 else s.access_session_id = any ($2) end
returning s.access_session_id
