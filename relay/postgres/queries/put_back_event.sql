update postrider.outbox_event
set state = 'pending', attempts = 0, sent_at = null, next_attempt_at = null, updated_at = now()
where id = $1
