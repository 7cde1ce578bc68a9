-- Raises the marks of the locked shards to just before their first pending event, at most to $1. Its
-- snapshot is taken after the locks, and after all transactions ended that could hold ids up to $1. It looks from
-- where is known on (see lock_shards; $2 and $3 are its $3 and $4). Where events had become pending again, a new epoch
-- begins.
update postrider.outbox_shard s
set low_water = greatest(m.mark, least($1::bigint, coalesce(
        (select e.id - 1 from postrider.outbox_event e
         where e.shard = s.shard and e.state = 'pending' and e.id > m.mark and e.id + 0 > m.mark order by e.id + 0 limit 1), $1::bigint))),
    epoch = case when s.epoch < 0 then 1 - s.epoch else s.epoch end
from postrider.outbox_shard o
cross join lateral (select case when o.epoch = ($2::bigint[])[o.shard + 1] then greatest(o.low_water, ($3::bigint[])[o.shard + 1]) else o.low_water end as mark) m
where o.shard = s.shard and s.shard = any (current_setting('postrider.claim')::smallint[])
