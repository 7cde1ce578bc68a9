update postrider.access_session set last_used_at = now()
where access_session_id = $1 and last_used_at < now() - interval '1 minute'
