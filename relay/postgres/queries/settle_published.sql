-- Joined to unnest rather than compared with any(array): with stale statistics that is planned as a
-- walk over the whole primary key. So is "e.id = d.id", where the table is taken for empty: an equality could be
-- merged, for which the key's order is worth a walk. With an array of one it cannot.
update postrider.outbox_event e
set state = 'published', sent_at = clock_timestamp(), updated_at = now(), next_attempt_at = null
from unnest($1::bigint[]) as d(id) where e.id = any (array[d.id])
