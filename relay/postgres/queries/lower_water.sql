-- Events of this shard from id $2 on became pending again: what relays know of the epoch holds no more.
update postrider.outbox_shard set low_water = least(low_water, $2::bigint - 1), epoch = -abs(epoch)
where shard = $1 and (low_water >= $2::bigint or epoch > 0)
