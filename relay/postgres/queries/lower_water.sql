-- Events of this shard from id $2 on became pending again.
update postrider.outbox_shard set low_water = $2::bigint - 1 where shard = $1 and low_water >= $2::bigint
