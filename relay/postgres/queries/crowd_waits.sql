-- Whether events that a hold let through in a shard still wait to be sent.
select coalesce((select true from postrider.outbox_event e
                 where e.shard = s.shard and e.state = 'pending' and e.id > s.low_water and e.id + 0 > s.low_water
                   and e.id <= (select hs.returned_through from postrider.outbox_hold_shard hs where hs.hold_id = $1 and hs.shard = $2)
                 order by e.id + 0 limit 1), false)
from postrider.outbox_shard s where s.shard = $2
