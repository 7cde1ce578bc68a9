-- Locks those of the shards $1 that are free, and leaves their numbers in a setting of the transaction for the
-- statements that follow in the same round trip.
select set_config('postrider.claim', coalesce(array_agg(locked.shard)::text, '{}'), true),
       coalesce(array_agg(locked.shard), '{}')
from (select s.shard from postrider.outbox_shard s where s.shard = any ($1::smallint[])
      order by s.shard for update of s skip locked) locked
