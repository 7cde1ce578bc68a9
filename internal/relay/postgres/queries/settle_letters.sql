update postrider.outbox_exception e set state = 'dead_lettered', sent_at = clock_timestamp(), updated_at = clock_timestamp(), next_attempt_at = null
from unnest($1::bigint[]) as d(id) where e.id = any (array[d.id]) and e.state = 'exhausted'
