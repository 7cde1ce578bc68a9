-- Joined to unnest rather than compared with any(array): with stale statistics that is planned as a
-- walk over the whole primary key.
update postrider.outbox_event e
set state = 'published', sent_at = clock_timestamp(), updated_at = now(), next_attempt_at = null
from unnest($1::bigint[]) as d(id) where e.id = d.id
