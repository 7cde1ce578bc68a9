update postrider.access_answer set status = $4, body = $5
where access_key_id = $1 and idempotency_key = $2 and created_at = $3 and status is null
