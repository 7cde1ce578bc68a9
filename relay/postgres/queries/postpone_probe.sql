update postrider.outbox_hold set next_probe_at = clock_timestamp() + $2::bigint * interval '1 microsecond' where hold_id = $1
