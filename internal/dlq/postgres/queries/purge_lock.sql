-- Investigations that are to go, locked in the order of redrive_lock, also against sessions that only keep
-- them from being deleted (for key share).
select e.dlq_entry_uuid
from (select w.id from unnest($1::uuid[]) as w(id) order by w.id) w
cross join lateral (select e.dlq_entry_uuid from postrider.dlq_entry e where e.dlq_entry_uuid = w.id for update) e
