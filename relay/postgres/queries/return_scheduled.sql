-- By time and then by id: events of a key that are due at the same time keep their order. Says how many
-- came back and from which id.
with back as (
    update postrider.outbox_event set state = 'pending', updated_at = now()
    where id in (select id from postrider.outbox_event
                 where shard = $1 and state = 'scheduled' and next_attempt_at <= clock_timestamp()
                 order by next_attempt_at, id limit $2)
    returning id
)
select count(*), coalesce(min(id), 0) from back
