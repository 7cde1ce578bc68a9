select draining, next_probe_at <= clock_timestamp(), cause from postrider.outbox_hold where hold_id = $1 for update
