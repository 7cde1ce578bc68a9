update postrider.access_session set ended_at = now() where access_session_id = $1 and ended_at is null
