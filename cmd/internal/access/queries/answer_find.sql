select request_hash = $3, status, body, changed_action is not null, created_at,
       coalesce(changed_action, ''), coalesce(changed_target_id, ''), coalesce(changed_request_id, '')
from postrider.access_answer where access_key_id = $1 and idempotency_key = $2
