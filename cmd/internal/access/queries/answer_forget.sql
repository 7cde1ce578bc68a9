delete from postrider.access_answer
where access_key_id = $1 and idempotency_key = $2 and created_at = $3 and status is null and changed_action is null
