select postrider.outbox_partition_prepare($1)
