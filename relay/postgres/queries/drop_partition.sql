select postrider.outbox_drop_partition($1::bigint * interval '1 microsecond', $2)
