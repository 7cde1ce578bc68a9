select postrider.outbox_skip($1, $2)
