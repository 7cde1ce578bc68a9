update postrider.outbox_exception e
set next_attempt_at = clock_timestamp() + $2::bigint * interval '1 microsecond', updated_at = clock_timestamp()
from unnest($1::bigint[]) as d(id) where e.id = any (array[d.id]) and e.state = 'exhausted'
