update postrider.outbox_event e
set next_attempt_at = clock_timestamp() + $2::bigint * interval '1 microsecond', updated_at = now()
from unnest($1::bigint[]) as d(id) where e.id = any (array[d.id]) and e.state::text = 'exhausted'
