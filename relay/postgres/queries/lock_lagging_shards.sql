-- Locks the free shards whose mark is more than $2 ids behind $1.
select set_config('postrider.claim', coalesce(array_agg(locked.shard)::text, '{}'), true)
from (select s.shard from postrider.outbox_shard s where s.low_water + $2::bigint < $1::bigint
      order by s.shard for update of s skip locked) locked
