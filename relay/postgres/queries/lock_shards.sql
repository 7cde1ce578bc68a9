-- Locks up to $2 free shards that have pending events, looking from shard $1 on, and leaves their
-- numbers in a setting of the transaction for the statements that follow in the same round trip. Says how
-- many, and what time it is.
-- A scalar subquery, not exists: that would be planned as a join that reads every pending event.
select set_config('postrider.claim', coalesce(array_agg(locked.shard)::text, '{}'), true), count(*)::int, clock_timestamp()
from (
    select s.shard from postrider.outbox_shard s
    where (select true from postrider.outbox_event e
           where e.shard = s.shard and e.state = 'pending' and e.id > s.low_water limit 1)
    order by (s.shard - $1::int + 64) & 63
    limit $2
    for update of s skip locked
) locked
