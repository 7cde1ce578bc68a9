-- Puts exceptions in hand: parked ones of the holds $1, from behind $2, $3 of each at most, and $4 scheduled ones that are
-- due; of all these as many as have $5 bytes together, one at least. A row that another session has locked stays with it, and
-- so does what is parked behind the same hold after it: it must not be passed.
with parked as materialized (
    select h.hold_id, x.id from unnest($1::bigint[], $2::bigint[], $3::int[]) as h(hold_id, behind, events)
    cross join lateral (select x.id from postrider.outbox_exception x where x.hold_id = h.hold_id and x.id > h.behind and x.state = 'parked' and x.sending_since is null
                        order by x.id limit h.events) x
), free as materialized (
    select x.hold_id, x.id from postrider.outbox_exception x
    where x.id = any (array(select p.id from parked p)) and x.state = 'parked' and x.sending_since is null for update skip locked
), locked as (
    select p.hold_id, min(p.id) as first from parked p where not exists (select from free f where f.id = p.id) group by p.hold_id
), waiting as (
    select f.id from free f left join locked l on l.hold_id = f.hold_id where l.first is null or f.id < l.first
    union all
    select s.id from (select x.id from postrider.outbox_exception x where x.state = 'scheduled' and x.next_attempt_at <= (select clock_timestamp()) and x.sending_since is null
     order by x.next_attempt_at, x.id limit $4::int for update skip locked) s
    union all
    -- One that failed and is to wait for longer than $6 microseconds is due: the clock was put back.
    select s.id from (select x.id from postrider.outbox_exception x
     where x.state = 'scheduled' and x.next_attempt_at > (select clock_timestamp()) + $6::bigint * interval '1 microsecond' and x.attempts > 0 and x.sending_since is null
     order by x.next_attempt_at, x.id limit $4::int for update skip locked) s
), sized as (
    select w.id, sum(coalesce(octet_length(x.payload), octet_length(e.payload), 0) + coalesce(octet_length(x.key), octet_length(e.key), 0)) over (order by w.id)
                 - coalesce(octet_length(x.payload), octet_length(e.payload), 0) as before
    from waiting w join postrider.outbox_exception x on x.id = w.id left join postrider.outbox_event e on e.id = w.id
), taken as (
    update postrider.outbox_exception x set sending_since = clock_timestamp()
    from sized s where x.id = any (array[s.id]) and (s.before < $5::bigint or s.id = (select min(m.id) from sized m))
    returning x.*
)
-- Holds with events that were not taken have a row without an event.
select 0::bigint, '00000000-0000-0000-0000-000000000000'::uuid, '', null::bytea, null::bytea, '{}'::jsonb, 0, 0, 0, clock_timestamp(), null::timestamptz, null::timestamptz,
       '', '', '', null::uuid, false, p.hold_id
from parked p where not exists (select from taken t where t.id = p.id) group by p.hold_id
union all
select t.id, t.event_id, t.topic, case when t.copied then t.key else e.key end, case when t.copied then t.payload else e.payload end,
       coalesce(case when t.copied then t.headers else e.headers end, '{}'), t.attempts, coalesce(t.max_attempts, e.max_attempts, 0)::int, t.episode,
       coalesce(t.created_at, e.created_at), t.first_error_at, t.last_error_at, coalesce(t.last_error_class, ''), coalesce(t.last_error_code, ''),
       coalesce(t.last_error, ''), coalesce(t.task_uuid, e.task_uuid), coalesce(t.kind, e.kind) = 'task', coalesce(t.hold_id, 0)
from taken t left join postrider.outbox_event e on e.id = t.id
order by 1
