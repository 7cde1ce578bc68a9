delete from postrider.outbox_event where id = any ($1::bigint[])
