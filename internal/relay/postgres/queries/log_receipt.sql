insert into postrider.outbox_receipt (number, term, position, first_id, events, forgotten, gaps, returned, trying, note, worker, nonce)
values ($1, $2, $3, $4, $5::text::int8multirange, $6::text::int8multirange, $7::text::int8multirange, $8::text::int8multirange, $9, $10, $11, $12)
