-- Counts up to $1 events of each state, and how long the oldest event that should have gone has waited.
with pending as (
    select count(*) as events, count(*) filter (where e.available_at is null or e.available_at <= clock_timestamp()) as due
    from (select e.available_at from postrider.outbox_event e
          where e.id > (select p.position from postrider.outbox_progress p) order by e.id limit $1::int) e
), gaps as (
    select count(*) as events, min(e.created_at) as since
    from (select e.created_at from postrider.outbox_progress p cross join unnest(p.gaps) gap
          cross join lateral (select e.created_at from postrider.outbox_event e where e.id >= lower(gap) and e.id < upper(gap)
              limit $1::int) e limit $1::int) e
), first_pending as (
    select min(e.created_at) as since
    from (select e.created_at, e.available_at from postrider.outbox_event e
          where e.id > (select p.position from postrider.outbox_progress p) order by e.id limit 100) e
    where e.available_at is null or e.available_at <= clock_timestamp()
), parked as (
    select count(*) as events from (select from postrider.outbox_exception x where x.hold_id is not null limit $1::int) x
), first_parked as (
    -- Holds from the oldest on: their numbers grow. Events behind a halted key wait for an operator, for as long as it
    -- takes, and are not late; so many halted keys are passed over that they do not hide the others.
    select min(x.since) as since
    from (select h.hold_id from (select h.hold_id, h.cause, h.draining from postrider.outbox_hold h order by h.hold_id limit 10 * $1::int) h
          where h.cause <> 'halted' or h.draining order by h.hold_id limit $1::int) h
    cross join lateral (
        select coalesce(x.created_at, (select e.created_at from postrider.outbox_event e where e.id = x.id)) as since
            from postrider.outbox_exception x
        where x.hold_id = h.hold_id order by x.id limit 1) x
), scheduled as (
    select count(*) as events, min(x.next_attempt_at) filter (where x.next_attempt_at <= clock_timestamp()) as since
    from (select x.next_attempt_at from postrider.outbox_exception x where x.state = 'scheduled' order by x.next_attempt_at limit $1::int) x
), exhausted as (
    select count(*) as events, min(x.created_at) as since
    from (select x.created_at from postrider.outbox_exception x
          where x.state = 'exhausted' order by x.topic, coalesce(x.next_attempt_at, '-infinity'::timestamptz), x.id limit $1::int) x
)
select pending.events + gaps.events, pending.due + gaps.events, parked.events, scheduled.events, exhausted.events,
       greatest(coalesce(extract(epoch from clock_timestamp()
           - least(first_pending.since, gaps.since, first_parked.since, scheduled.since, exhausted.since)), 0), 0)::float8
from pending, gaps, first_pending, parked, first_parked, scheduled, exhausted
