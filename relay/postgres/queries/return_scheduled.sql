-- Brings back up to $1 scheduled events of each locked shard: by time and then by id, so that events of a
-- key that are due at the same time keep their order. Says how many came back. The clock is a subquery: see
-- due_shards.
with back as (
    update postrider.outbox_event e set state = 'pending', updated_at = now()
    from postrider.outbox_shard s
    cross join lateral (
        select d.id from postrider.outbox_event d
        where d.shard = s.shard and d.state = 'scheduled' and d.next_attempt_at <= (select clock_timestamp())
        order by d.next_attempt_at, d.id limit $1::int) due
    where s.shard = any (current_setting('postrider.claim')::smallint[]) and e.id = any (array[due.id])
    returning e.shard, e.id
), lowered as (
    update postrider.outbox_shard s set low_water = least(s.low_water, f.first - 1), epoch = -abs(s.epoch)
    from (select b.shard, min(b.id) as first from back b group by b.shard) f
    where s.shard = f.shard and (s.low_water >= f.first or s.epoch > 0)
)
select count(*) from back
