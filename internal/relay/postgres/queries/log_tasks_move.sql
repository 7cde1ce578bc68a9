select postrider.outbox_tell_tasks($1::bigint[])
