update postrider.outbox_hold set next_probe_at = clock_timestamp() where hold_id = $1 and next_probe_at <> 'infinity'
