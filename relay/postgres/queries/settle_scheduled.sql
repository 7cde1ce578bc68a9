-- $6 is the wait in microseconds; null waits for the event's own available_at. attempts is null when
-- nothing failed.
update postrider.outbox_event e
set state = 'scheduled', updated_at = now(),
    next_attempt_at = coalesce(clock_timestamp() + f.wait * interval '1 microsecond', e.available_at),
    attempts = coalesce(f.attempts, e.attempts),
    first_error_at = case when f.attempts is null then e.first_error_at else coalesce(e.first_error_at, statement_timestamp()) end,
    last_error_at = case when f.attempts is null then e.last_error_at else statement_timestamp() end,
    last_error_class = coalesce(f.class, e.last_error_class), last_error_code = coalesce(f.code, e.last_error_code),
    last_error = coalesce(f.error, e.last_error)
from unnest($1::bigint[], $2::int[], $3::text[], $4::text[], $5::text[], $6::bigint[]) as f(id, attempts, class, code, error, wait)
where e.id = any (array[f.id]) and e.state::text = 'pending' -- cast, so that only the primary key fits
