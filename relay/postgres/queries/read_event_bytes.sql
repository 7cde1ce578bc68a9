select event_id, key, payload, headers::text from postrider.outbox_event where id = $1
