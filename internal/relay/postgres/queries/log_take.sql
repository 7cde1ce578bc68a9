-- Puts exceptions in hand: parked ones of the holds $1, from behind $2 up to $3, $4 of each at most, and $5 scheduled ones that are
-- due; of all these as many as have $6 bytes together, one at least. A row that another session has locked is not taken.
-- No event behind it in its hold is taken either, because that session may leave the event where it is. A row without an
-- id names a hold that has events, but none was taken.
with asked as (
    select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[]) as h(hold_id, behind, until, events)
), wanted as materialized (
    select h.hold_id, x.id from asked h
    cross join lateral (select x.id from postrider.outbox_exception x where x.hold_id = h.hold_id and x.id > h.behind and x.id <= h.until
        and x.state = 'parked' and x.sending_since is null
                        order by x.id limit h.events) x
), locked as materialized (
    select h.hold_id, x.id from asked h
    cross join lateral (select x.id from postrider.outbox_exception x where x.hold_id = h.hold_id and x.id > h.behind and x.id <= h.until
        and x.state = 'parked' and x.sending_since is null
                        order by x.id limit h.events for update skip locked) x
), first_of_others as materialized (
    select w.hold_id, min(w.id) as id from wanted w where w.id <> all (array(select l.id from locked l)) group by w.hold_id
), waiting as (
    select l.id from locked l left join first_of_others o on o.hold_id = l.hold_id where o.id is null or l.id < o.id
    union all
    select s.id from (select x.id from postrider.outbox_exception x where x.state = 'scheduled'
        and x.next_attempt_at <= (select clock_timestamp()) and x.sending_since is null
     order by x.next_attempt_at, x.id limit $5::int for update skip locked) s
    union all
    -- One that failed and is to wait for longer than $7 microseconds is due: the clock was put back.
    select s.id from (select x.id from postrider.outbox_exception x
     where x.state = 'scheduled' and x.next_attempt_at > (select clock_timestamp()) + $7::bigint * interval '1 microsecond'
         and x.attempts > 0 and x.sending_since is null
     order by x.next_attempt_at, x.id limit $5::int for update skip locked) s
), sized as (
    select w.id, sum(s.bytes) over (order by w.id) - s.bytes as before
    from waiting w
    cross join lateral (select coalesce(octet_length(x.payload), octet_length(e.payload), 0) + coalesce(octet_length(x.key),
        octet_length(e.key), 0) as bytes
                        from postrider.outbox_exception x
                        left join lateral (select o.key, o.payload from postrider.outbox_event o where o.id = x.id offset 0) e on true
                        where x.id = w.id offset 0) s
), taken as (
    update postrider.outbox_exception x set sending_since = clock_timestamp()
    from sized s where x.id = any (array[s.id]) and (s.before < $6::bigint or s.id = (select min(m.id) from sized m))
    returning x.*
)
select t.id, t.event_id, t.topic, case when t.copied then t.key else e.key end, case when t.copied then t.payload else e.payload end,
       coalesce(case when t.copied then t.headers else e.headers end, '{}'), t.attempts, coalesce(t.max_attempts, e.max_attempts, 0)::int, t.episode,
       coalesce(t.created_at, e.created_at), t.first_error_at, t.last_error_at, coalesce(t.last_error_class, ''), coalesce(t.last_error_code, ''),
       coalesce(t.last_error, ''), coalesce(t.task_uuid, e.task_uuid), coalesce(t.kind, e.kind, 'event'),
       case when t.copied then t.partition else e.partition end, case when t.copied then t.timestamp else e.timestamp end, coalesce(t.hold_id, 0)
from taken t left join lateral (select * from postrider.outbox_event o where o.id = t.id offset 0) e on true
union all
select 0, '00000000-0000-0000-0000-000000000000', '', null, null, '{}', 0, 0, 0, '2000-01-01', null, null, '', '', '', null, 'event', null, null, w.hold_id
from wanted w group by w.hold_id having not w.hold_id = any (array(select t.hold_id from taken t where t.hold_id is not null))
order by 1
