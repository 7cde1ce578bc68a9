select request_hash = $3, status, body from postrider.access_answer where access_key_id = $1 and idempotency_key = $2
