-- Reads the pending events of the locked shards in order, with a snapshot taken after the locks, so
-- that everything the shards' last owners settled is seen. One index scan per shard, which ends after its
-- share of $1 events or of $2 bytes; the event that crosses the share of bytes is the last. An event is delayed
-- if its writer said so: one that was due when it was written stays due when the clock is put back.
select e.id, e.event_id, e.topic, e.key, e.payload, e.headers, e.state::text, e.shard, e.attempts,
       coalesce(e.max_attempts, 0), e.episode, e.created_at,
       e.next_attempt_at is null and e.available_at > greatest(clock_timestamp(), e.created_at),
       e.first_error_at, e.last_error_at, coalesce(e.last_error_class, ''), coalesce(e.last_error_code, ''),
       coalesce(e.last_error, ''), e.task_uuid
from postrider.outbox_shard claimed
cross join lateral (
    select sized.*, sum(sized.bytes) over (order by sized.id) - sized.bytes as bytes_before
    from (
        select e.*, coalesce(octet_length(e.payload), 0) + coalesce(octet_length(e.key), 0) as bytes
        from postrider.outbox_event e
        where e.shard = claimed.shard and e.state = 'pending' and e.id > claimed.low_water
        order by e.id
        limit (select greatest($1::int / greatest(cardinality(current_setting('postrider.claim')::smallint[]), 1), 1))
    ) sized
) e
where claimed.shard = any (current_setting('postrider.claim')::smallint[])
  and e.bytes_before < (select greatest($2::bigint / greatest(cardinality(current_setting('postrider.claim')::smallint[]), 1), 1))
