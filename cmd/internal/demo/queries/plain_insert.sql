-- A writer that does not use the functions: a header value must be text, so this can never be sent.
insert into postrider.outbox_event (topic, key, payload, headers) values ($1, $2, $3, '{"priority": 5}')
