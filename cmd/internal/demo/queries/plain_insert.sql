-- A writer that does not use the functions, which would have refused these headers.
insert into postrider.outbox_event (topic, key, payload, headers) values ($1, $2, $3, demo.urgent_headers())
