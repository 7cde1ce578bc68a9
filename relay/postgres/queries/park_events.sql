-- Parks events under holds that still exist; under one that ended meanwhile they stay pending.
update postrider.outbox_event e
set state = 'parked', hold_id = f.hold_id, updated_at = now(), next_attempt_at = null,
    attempts = coalesce(f.attempts, e.attempts),
    first_error_at = case when f.attempts is null then e.first_error_at else coalesce(e.first_error_at, statement_timestamp()) end,
    last_error_at = case when f.attempts is null then e.last_error_at else statement_timestamp() end,
    last_error_class = coalesce(f.class, e.last_error_class), last_error_code = coalesce(f.code, e.last_error_code),
    last_error = coalesce(f.error, e.last_error)
from unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[], $5::text[], $6::text[]) as f(id, hold_id, attempts, class, code, error)
where e.id = any (array[f.id]) and e.state::text = 'pending' -- cast, so that only the primary key fits
  and exists (select from postrider.outbox_hold h where h.hold_id = f.hold_id)
