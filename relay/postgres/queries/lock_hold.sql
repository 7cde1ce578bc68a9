select hold_id from postrider.outbox_hold where hold_id = $1 for update
