-- Reads the pending events of the locked shards in order, with a snapshot taken after the locks, so
-- that everything the shards' last owners settled is seen. One index scan per shard.
select e.id, e.event_id, e.topic, e.key, e.payload, e.headers, e.state::text, e.shard, e.attempts,
       coalesce(e.max_attempts, 0), e.episode, e.created_at, e.available_at,
       e.next_attempt_at is null and e.available_at > clock_timestamp(),
       e.first_error_at, e.last_error_at, coalesce(e.last_error_class, ''), coalesce(e.last_error_code, ''),
       coalesce(e.last_error, ''), e.task_uuid
from postrider.outbox_shard claimed
cross join lateral (
    select * from postrider.outbox_event e
    where e.shard = claimed.shard and e.state = 'pending' and e.id > claimed.low_water
    order by e.id
    limit (select greatest($1::int / greatest(cardinality(current_setting('postrider.claim')::smallint[]), 1), 1))
) e
where claimed.shard = any (current_setting('postrider.claim')::smallint[])
