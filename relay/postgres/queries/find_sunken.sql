-- Shards whose mark (see lock_shards; $1 and $2 are its $3 and $4) is above a pending event. There should be none; a
-- restore that rewinds the ids, or somebody who makes an event pending by hand, leaves some.
select k.shard, k.first
from (select s.shard, (select e.id from postrider.outbox_event e
                       where e.shard = s.shard and e.state = 'pending' and e.id <= m.mark and e.id + 0 <= m.mark order by e.id + 0 limit 1) as first
      from postrider.outbox_shard s
      cross join lateral (select case when s.epoch = ($1::bigint[])[s.shard + 1] then greatest(s.low_water, ($2::bigint[])[s.shard + 1]) else s.low_water end as mark) m
      offset 0) k
where k.first is not null
