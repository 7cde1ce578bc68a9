-- Counts up to $1 events of each state, and how long the oldest of those that should have gone has waited.
-- Pending ones are counted from the marks on, as they are claimed (see lock_shards; $2 and $3 are its $3 and $4). The oldest are looked for where
-- they are, at the beginning of each shard and each hold.
with shard as materialized (
    select s.shard, case when s.epoch = ($2::bigint[])[s.shard + 1] then greatest(s.low_water, ($3::bigint[])[s.shard + 1]) else s.low_water end as mark
    from postrider.outbox_shard s
), pending as (
    select count(*) as events, count(*) filter (where p.available_at <= clock_timestamp()) as due
    from (select e.available_at from shard s
          cross join lateral (select e.available_at from postrider.outbox_event e
                              where e.shard = s.shard and e.state = 'pending' and e.id > s.mark and e.id + 0 > s.mark
                              order by e.id + 0 limit $1::int) e
          limit $1::int) p
), first_pending as (
    select min(p.since) as since
    from shard s
    cross join lateral (
        select greatest(e.available_at, e.created_at) as since
        from (select e.available_at, e.created_at from postrider.outbox_event e
              where e.shard = s.shard and e.state = 'pending' and e.id > s.mark and e.id + 0 > s.mark
              order by e.id + 0 limit greatest($1::int / 64, 1)) e
        where e.available_at <= clock_timestamp() limit 1) p
), parked as (
    select count(*) as events from (
        select from postrider.outbox_event e where e.state = 'parked' limit $1::int) p
), first_parked as (
    -- Holds from the oldest on: their numbers grow. What waits behind a halted key waits for somebody, for as long as it
    -- takes, and is not late; so many halted keys are passed over that they do not hide the others.
    select min(p.since) as since
    from (select hs.hold_id, hs.shard
          from (select h.hold_id, h.cause, h.draining from postrider.outbox_hold h order by h.hold_id limit 10 * $1::int) h
          cross join lateral (select hs.hold_id, hs.shard from postrider.outbox_hold_shard hs where hs.hold_id = h.hold_id order by hs.shard) hs
          where h.cause <> 'halted' or h.draining
          order by h.hold_id, hs.shard limit $1::int) hs
    cross join lateral (
        select greatest(e.available_at, e.created_at) as since from postrider.outbox_event e
        where e.hold_id = hs.hold_id and e.shard = hs.shard and e.state = 'parked' order by e.id + 0 limit 1) p
), scheduled as (
    select count(*) as events, min(greatest(e.available_at, e.created_at)) filter (where e.available_at <= clock_timestamp()) as since
    from (select e.available_at, e.created_at from postrider.outbox_shard s
          cross join lateral (select e.available_at, e.created_at from postrider.outbox_event e
                              where e.shard = s.shard and e.state = 'scheduled'
                              order by e.next_attempt_at limit $1::int) e
          limit $1::int) e
), exhausted as (
    select count(*) as events, min(greatest(e.available_at, e.created_at)) as since
    from (select e.available_at, e.created_at from postrider.outbox_event e
          where e.state = 'exhausted' order by e.topic, coalesce(e.next_attempt_at, '-infinity'::timestamptz), e.id limit $1::int) e
)
select pending.events, pending.due, parked.events, scheduled.events, exhausted.events,
       coalesce(extract(epoch from clock_timestamp()
           - least(first_pending.since, first_parked.since, scheduled.since, exhausted.since)), 0)::float8
from pending, first_pending, parked, first_parked, scheduled, exhausted
