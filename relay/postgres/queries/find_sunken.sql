-- Shards whose mark is above a pending event. There should be none; a restore that rewinds the ids, or
-- somebody who makes an event pending by hand, leaves some.
select s.shard, (select e.id from postrider.outbox_event e
                 where e.shard = s.shard and e.state = 'pending' and e.id <= s.low_water and e.id + 0 <= s.low_water order by e.id + 0 limit 1)
from postrider.outbox_shard s
where (select true from postrider.outbox_event e
       where e.shard = s.shard and e.state = 'pending' and e.id <= s.low_water and e.id + 0 <= s.low_water order by e.id + 0 limit 1)
