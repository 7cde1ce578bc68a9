-- Raises the marks of the locked shards to just before their first pending event, at most to $1. Its
-- snapshot is taken after the locks, and after all transactions ended that could hold ids up to $1.
update postrider.outbox_shard s
set low_water = greatest(s.low_water, least($1::bigint, coalesce(
    (select e.id - 1 from postrider.outbox_event e
     where e.shard = s.shard and e.state = 'pending' and e.id > s.low_water and e.id + 0 > s.low_water order by e.id + 0 limit 1), $1::bigint)))
where s.shard = any (current_setting('postrider.claim')::smallint[])
