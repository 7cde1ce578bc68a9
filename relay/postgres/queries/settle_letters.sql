update postrider.outbox_event e set state = 'dead_lettered', sent_at = clock_timestamp(), updated_at = now()
from unnest($1::bigint[]) as d(id) where e.id = d.id and e.state::text = 'exhausted'
