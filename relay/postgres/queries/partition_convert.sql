select postrider.outbox_partition_convert($1)
