-- Brings back parked events of those of the holds $1 that are due, in the locked shards: everything that a
-- draining hold has, but all draining ones of a shard together about $2 events at a time; one as a probe of
-- the others, which then are not due for $4 microseconds. Of a hold in commit order those up to id $3, and of
-- a crowded key, in turns, up to $5: the next ones when the last ones are sent.
-- A hold that somebody else changes right now is left to them. Whoever parks behind it in another shard does
-- not matter; before it ends, they do: see lock_emptied_holds.
-- $6 and $7 are $3 and $4 of lock_shards.
-- One event more than comes back is looked at, to know whether a hold has nothing left in a shard; then it
-- leaves the shard. Says how many came back and which holds were probed, and leaves in a setting of the
-- transaction which holds left a shard.
with due as materialized (
    select h.hold_id, h.draining, h.cause, hs.shard, hs.returned_through
    from unnest($1::bigint[]) d(id)
    join postrider.outbox_hold h on h.hold_id = d.id
    join postrider.outbox_hold_shard hs on hs.hold_id = h.hold_id
    where hs.shard = any (current_setting('postrider.claim')::smallint[]) and h.next_probe_at <= (select clock_timestamp())
    for no key update of h skip locked
), shared as (
    select d.*, row_number() over (partition by d.hold_id order by d.shard) as nth,
           greatest($2::bigint / greatest(count(*) filter (where d.draining) over (partition by d.shard), 1), 1) as share
    from due d
), turn as materialized (
    select s.hold_id, s.shard, s.draining,
           case when s.draining and s.cause = 'commit_order' then $3::bigint else 9223372036854775807 end as last,
           case when not s.draining then 1
                when s.cause <> 'crowded' then s.share
                when (select true from postrider.outbox_event e
                      where e.shard = s.shard and e.state = 'pending' and e.id <= s.returned_through
                        and e.id > (select case when m.epoch = ($6::bigint[])[m.shard + 1] then greatest(m.low_water, ($7::bigint[])[m.shard + 1]) else m.low_water end
                                     from postrider.outbox_shard m where m.shard = s.shard)
                        and e.id + 0 > (select case when m.epoch = ($6::bigint[])[m.shard + 1] then greatest(m.low_water, ($7::bigint[])[m.shard + 1]) else m.low_water end
                                     from postrider.outbox_shard m where m.shard = s.shard)
                      order by e.id + 0 limit 1) then 0
                else least(s.share, $5::bigint) end as share
    from shared s where s.draining or s.nth = 1
), looked as materialized (
    select t.hold_id, t.shard, t.draining, l.ids, l.events, l.first, l.through, l.more
    from turn t
    cross join lateral (
        select array_agg(p.id) filter (where p.back) as ids, count(*) filter (where p.back) as events,
               min(p.id) filter (where p.back) as first, max(p.id) filter (where p.back) as through,
               coalesce(bool_or(not p.back), false) as more
        from (select e.id, e.id <= t.last and row_number() over (order by e.id) <= t.share as back
              from (select e.id from postrider.outbox_event e
                    where e.hold_id = t.hold_id and e.shard = t.shard and e.state = 'parked'
                    order by e.id + 0 limit t.share + 1) e) p) l
), back as (
    update postrider.outbox_event e set state = 'pending', hold_id = null, updated_at = now()
    from looked l cross join lateral unnest(l.ids) as b(id) where e.id = any (array[b.id])
), lowered as (
    update postrider.outbox_shard s set low_water = least(s.low_water, f.first - 1), epoch = -abs(s.epoch)
    from (select l.shard, min(l.first) as first from looked l group by l.shard) f
    where s.shard = f.shard and (s.low_water >= f.first or s.epoch > 0)
), let_through as (
    update postrider.outbox_hold_shard hs set returned_through = l.through
    from looked l
    where hs.hold_id = l.hold_id and hs.shard = l.shard and l.events > 0 and (l.more or not l.draining)
), emptied as (
    delete from postrider.outbox_hold_shard hs using looked l
    where hs.hold_id = l.hold_id and hs.shard = l.shard and not l.more and (l.draining or l.events = 0)
    returning hs.hold_id
), postponed as (
    update postrider.outbox_hold h set next_probe_at = clock_timestamp() + $4::bigint * interval '1 microsecond'
    from looked l where h.hold_id = l.hold_id and not l.draining and l.events > 0
)
select (select coalesce(sum(l.events), 0)::bigint from looked l),
       (select coalesce(array_agg(l.hold_id), '{}') from looked l where not l.draining and l.events > 0),
       set_config('postrider.emptied', coalesce((select array_agg(distinct e.hold_id)::text from emptied e), '{}'), true)
