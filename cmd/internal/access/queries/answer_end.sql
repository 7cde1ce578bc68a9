update postrider.access_answer set status = $3, body = $4 where access_key_id = $1 and idempotency_key = $2
