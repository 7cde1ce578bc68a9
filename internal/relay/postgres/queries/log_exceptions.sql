-- An event that is given up takes its content along; where its row was deleted from the log the content is empty. An exception
-- keeps the copy that it has: people edit copies.
insert into postrider.outbox_exception as x (id, state, hold_id, attempts, max_attempts, episode, next_attempt_at, first_error_at, last_error_at,
    last_error_class, last_error_code, last_error, event_id, topic, copied, kind, key, payload, headers, task_uuid, idempotency_key, created_at,
    partition, timestamp)
select f.id, f.state::postrider.outbox_exception_state, f.hold_id, f.attempts, f.max_attempts, case when f.state = 'exhausted' then 1 else 0 end,
       case when f.state = 'scheduled' then coalesce(clock_timestamp() + f.wait * interval '1 microsecond', e.available_at, clock_timestamp()) end,
       case when f.class is not null then clock_timestamp() end, case when f.class is not null then clock_timestamp() end, f.class, f.code, f.error,
       f.event_id, f.topic, f.state = 'exhausted', case when f.state = 'exhausted' then coalesce(e.kind, 'event') end,
           case when f.state = 'exhausted' then e.key end,
       case when f.state = 'exhausted' then case when e.id is null then '' else e.payload end end, case when f.state = 'exhausted' then coalesce(e.headers, '{}') end,
       case when f.state = 'exhausted' then e.task_uuid end, case when f.state = 'exhausted' then e.idempotency_key end,
       case when f.state = 'exhausted' then coalesce(e.created_at, clock_timestamp()) end,
       case when f.state = 'exhausted' then e.partition end, case when f.state = 'exhausted' then e.timestamp end
from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::int[], $8::int[], $9::text[], $10::text[], $11::text[])
     as f(id, event_id, topic, state, hold_id, wait, attempts, max_attempts, class, code, error)
left join lateral (select * from postrider.outbox_event o where o.id = f.id and f.state <> 'parked') e on true
on conflict (id) do update
set state = excluded.state, hold_id = excluded.hold_id, sending_since = null, attempts = excluded.attempts, updated_at = clock_timestamp(),
    closed_at = null,
    max_attempts = coalesce(excluded.max_attempts, x.max_attempts), episode = x.episode + excluded.episode,
        next_attempt_at = excluded.next_attempt_at,
    first_error_at = coalesce(x.first_error_at, excluded.first_error_at), last_error_at = coalesce(excluded.last_error_at, x.last_error_at),
    last_error_class = coalesce(excluded.last_error_class, x.last_error_class), last_error_code = coalesce(excluded.last_error_code,
        x.last_error_code),
    last_error = coalesce(excluded.last_error, x.last_error), copied = x.copied or excluded.copied,
    kind = case when x.copied then x.kind else excluded.kind end, key = case when x.copied then x.key else excluded.key end,
    payload = case when x.copied then x.payload else excluded.payload end, headers = case when x.copied then x.headers else excluded.headers end,
    task_uuid = case when x.copied then x.task_uuid else excluded.task_uuid end,
    idempotency_key = case when x.copied then x.idempotency_key else excluded.idempotency_key end,
    created_at = case when x.copied then x.created_at else excluded.created_at end,
    partition = case when x.copied then x.partition else excluded.partition end,
    timestamp = case when x.copied then x.timestamp else excluded.timestamp end
