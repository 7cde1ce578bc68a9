select shard from postrider.outbox_shard where shard = $1 for update
