update postrider.access_key set last_used_at = now()
where access_key_id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute')
