update postrider.outbox_event
set state = 'exhausted', hold_id = null, episode = episode + 1, next_attempt_at = null, updated_at = now(),
    first_error_at = coalesce(first_error_at, statement_timestamp()), last_error_at = statement_timestamp(),
    last_error_class = 'permanent', last_error_code = 'SKIPPED', last_error = $2
where id = $1
