update postrider.outbox_hold_shard set returned_through = $3 where hold_id = $1 and shard = $2
