update postrider.outbox_hold set draining = true, next_probe_at = clock_timestamp() where hold_id = any ($1::bigint[]) and not draining
