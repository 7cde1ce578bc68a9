delete from postrider.access_answer where access_key_id = $1 and idempotency_key = $2 and status is null
