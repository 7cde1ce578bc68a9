-- Locks up to $2 free shards that have pending events, looking from shard $1 on, and leaves their
-- numbers in a setting of the transaction for the statements that follow in the same round trip. Says how
-- many, the lowest of their low-water marks, and what time it is.
-- The shards come one by one, so that it ends with the last that is needed. A scalar subquery, not exists:
-- that would be planned as a join that reads every pending event.
select set_config('postrider.claim', coalesce(array_agg(locked.shard)::text, '{}'), true), count(*)::int,
       coalesce(min(locked.low_water), 0), clock_timestamp()
from (
    select s.shard, s.low_water from generate_series($1::int, $1::int + 63) n
    join postrider.outbox_shard s on s.shard = (n & 63)::smallint
    where (select true from postrider.outbox_event e
           where e.shard = s.shard and e.state = 'pending' and e.id > s.low_water and e.id + 0 > s.low_water
           order by e.id + 0 limit 1)
    limit $2
    for update of s skip locked
) locked
