-- What claim_events leaves out, of the events $1. An event is delayed if its writer said so: one that was due
-- when it was written stays due when the clock is put back.
select e.id, e.attempts, coalesce(e.max_attempts, 0), e.episode, e.created_at, e.next_attempt_at is null and e.available_at > greatest(clock_timestamp(), e.created_at),
       e.first_error_at, e.last_error_at, coalesce(e.last_error_class, ''), coalesce(e.last_error_code, ''), coalesce(e.last_error, ''), e.task_uuid
from unnest($1::bigint[]) as d(id) join postrider.outbox_event e on e.id = any (array[d.id])
