-- Messages become new events, in the given order. 0 and -1 are explained at the function.
select r.event_id, r.id from postrider.dlq_redrive_letters($1, $2, $3, $4::text[]::jsonb[], $5, $6, $7) r
