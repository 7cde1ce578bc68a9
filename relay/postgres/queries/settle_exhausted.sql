update postrider.outbox_event e
set state = 'exhausted', episode = e.episode + 1, attempts = f.attempts, next_attempt_at = null, updated_at = now(),
    first_error_at = coalesce(e.first_error_at, statement_timestamp()), last_error_at = statement_timestamp(),
    last_error_class = f.class, last_error_code = f.code, last_error = f.error
from unnest($1::bigint[], $2::int[], $3::text[], $4::text[], $5::text[]) as f(id, attempts, class, code, error)
where e.id = any (array[f.id]) and e.state::text = 'pending' -- cast, so that only the primary key fits
