-- Whether a hold has parked events in a shard.
select coalesce((select true from postrider.outbox_event where hold_id = $1 and shard = $2 and state = 'parked' limit 1), false)
