-- The pending investigations of events of other sources among these. Whether such an event halts its key its source alone knows.
select e.dlq_entry_uuid
from unnest($1::uuid[]) as w(id)
cross join lateral (
    select e.dlq_entry_uuid from postrider.dlq_entry e
    where e.dlq_entry_uuid = w.id and e.source <> 'main' and e.subject_type = 'event' and e.resolution_status::text = 'pending' limit 1) e
