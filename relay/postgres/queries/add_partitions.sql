select postrider.outbox_add_partitions()
