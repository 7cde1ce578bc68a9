update postrider.outbox_event set state = 'published', sent_at = clock_timestamp(), updated_at = now(), next_attempt_at = null
where id = any ($1::bigint[])
