-- Makes the events that find_far_scheduled finds due, in the locked shards. Says how many.
with pulled as (
    update postrider.outbox_event e set next_attempt_at = now(), updated_at = now()
    from postrider.outbox_shard s
    cross join lateral (
        select d.id from postrider.outbox_event d
        where d.shard = s.shard and d.state = 'scheduled' and d.next_attempt_at <> d.available_at
          and d.next_attempt_at > (select clock_timestamp()) + $1::bigint * interval '1 microsecond') far
    where s.shard = any (current_setting('postrider.claim')::smallint[]) and e.id = any (array[far.id])
    returning e.id
)
select count(*) from pulled
