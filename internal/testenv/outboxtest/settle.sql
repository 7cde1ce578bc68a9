-- Settles the events $1 as a leader does; they become $2: published, scheduled, exhausted or dead_lettered.
with given as materialized (
    select distinct w.id from unnest($1::bigint[]) as w(id)
), now as materialized (
    select * from postrider.outbox_progress
), fresh as materialized (
    select g.id from given g, now n
    where g.id > n.position or g.id <@ n.gaps
       -- A test that inserted it below the position: as if it had been in a gap.
       or exists (select from postrider.outbox_event e where e.id = g.id) and not exists (select from postrider.outbox_receipt r where r.events @> g.id)
), reached as materialized (
    select greatest(n.position, (select max(f.id) from fresh f)) as position from now n
), passed as materialized (
    select case when r.position > n.position then int8multirange(int8range(n.position + 1, r.position + 1)) else '{}' end as ids from now n, reached r
), waiting as materialized ( -- they are in gaps from now on
    select e.id from postrider.outbox_event e, passed p where e.id <@ p.ids and e.id not in (select f.id from fresh f)
), receipt as (
    insert into postrider.outbox_receipt (number, term, position, first_id, events, forgotten, gaps, returned)
    select n.number + 1, n.term, r.position, (select min(f.id) from fresh f), w.events, p.ids - w.events - v.ids, n.gaps - w.events + v.ids,
           (select range_agg(int8range(x.id, x.id, '[]')) from postrider.outbox_exception x join given g using (id) where $2 = 'published')
    from now n, reached r, passed p,
         (select coalesce(range_agg(int8range(f.id, f.id, '[]')), '{}') as events from fresh f) w,
         (select coalesce(range_agg(int8range(a.id, a.id, '[]')), '{}') as ids from waiting a) v
), gone as (
    delete from postrider.outbox_exception x using given g where $2 = 'published' and x.id = g.id
)
insert into postrider.outbox_exception as x (id, state, attempts, episode, next_attempt_at, sent_at, first_error_at, last_error_at, last_error_class, last_error_code,
    last_error, event_id, topic, copied, kind, key, payload, headers, task_uuid, idempotency_key, created_at, partition, timestamp)
select g.id, $2::text::postrider.outbox_exception_state, case when $2 <> 'scheduled' then 3 else 1 end, case when $2 <> 'scheduled' then 1 else 0 end,
       case when $2 = 'scheduled' then clock_timestamp() end, case when $2 = 'dead_lettered' then clock_timestamp() end,
       clock_timestamp(), clock_timestamp(), 'record', 'TEST', 'it failed', coalesce(e.event_id, o.event_id), coalesce(e.topic, o.topic),
       $2 <> 'scheduled', e.kind, e.key, e.payload, e.headers, e.task_uuid, e.idempotency_key, e.created_at, e.partition, e.timestamp
from given g
left join postrider.outbox_event e on e.id = g.id
left join postrider.outbox_exception o on o.id = g.id
where $2 <> 'published'
on conflict (id) do update
set state = excluded.state, hold_id = null, sending_since = null, attempts = excluded.attempts, updated_at = clock_timestamp(), closed_at = null,
    episode = x.episode + case when x.state not in ('exhausted', 'dead_lettered') then excluded.episode else 0 end,
    next_attempt_at = excluded.next_attempt_at, sent_at = excluded.sent_at, copied = x.copied or excluded.copied,
    kind = case when x.copied then x.kind else excluded.kind end, key = case when x.copied then x.key else excluded.key end,
    payload = case when x.copied then x.payload else excluded.payload end, headers = case when x.copied then x.headers else excluded.headers end,
    task_uuid = case when x.copied then x.task_uuid else excluded.task_uuid end,
    idempotency_key = case when x.copied then x.idempotency_key else excluded.idempotency_key end,
    created_at = case when x.copied then x.created_at else excluded.created_at end,
    partition = case when x.copied then x.partition else excluded.partition end,
    timestamp = case when x.copied then x.timestamp else excluded.timestamp end
