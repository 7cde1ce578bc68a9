update postrider.outbox_event set state = 'dead_lettered', sent_at = clock_timestamp(), updated_at = now()
where id = any ($1::bigint[]) and state = 'exhausted'
