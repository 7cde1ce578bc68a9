select draining, next_probe_at <= clock_timestamp() from postrider.outbox_hold where hold_id = $1 for update
