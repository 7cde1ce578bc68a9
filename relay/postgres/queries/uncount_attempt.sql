-- Takes back the attempt that count_attempt counted for the event $1.
update postrider.outbox_event set attempts = attempts - 1, updated_at = now() where id = $1 and attempts > 0
