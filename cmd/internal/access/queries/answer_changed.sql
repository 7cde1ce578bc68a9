update postrider.access_answer set changed_action = $4, changed_target_id = $5, changed_request_id = $6
where access_key_id = $1 and idempotency_key = $2 and created_at = $3 and status is null
