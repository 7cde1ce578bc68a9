update postrider.outbox_event set state = 'pending', updated_at = now()
where id in (select id from postrider.outbox_event
             where shard = $1 and state = 'scheduled' and next_attempt_at <= clock_timestamp()
             order by next_attempt_at limit $2)
