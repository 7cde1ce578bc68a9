-- Stronger than redrive_lock, because these investigations are deleted: a session that keeps one for its redrive (for key
-- share) must be waited for. In the order of redrive_lock, so that no two sessions wait for each other.
select e.dlq_entry_uuid
from (select w.id from unnest($1::uuid[]) as w(id) order by w.id) w
cross join lateral (select e.dlq_entry_uuid from postrider.dlq_entry e where e.dlq_entry_uuid = w.id for update) e
