delete from postrider.outbox_hold_shard where hold_id = $1 and shard = $2
