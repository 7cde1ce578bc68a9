select postrider.dlq_purge_entries($1)
