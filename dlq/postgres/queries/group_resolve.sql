-- Closes the oldest pending investigations of a group that were opened until $2, locked in an order that purging keeps.
with meant as (
    select e.dlq_entry_uuid from postrider.dlq_entry e
    where e.dlq_group_uuid = $1 and e.resolution_status = 'pending' and (e.created_at at time zone 'UTC') <= ($2::timestamptz at time zone 'UTC')
    order by (e.created_at at time zone 'UTC'), e.dlq_entry_uuid limit $3
), locked as materialized (
    select e.dlq_entry_uuid from postrider.dlq_entry e join meant m using (dlq_entry_uuid)
    where e.resolution_status = 'pending' order by e.dlq_entry_uuid for update of e
)
update postrider.dlq_entry e
set resolution_status = $4::postrider.dlq_resolution_status, resolution_timestamp = now(), updated_at = now(),
    resolution_notes = coalesce(nullif($5, ''), e.resolution_notes), resolved_by = $6
from locked l where e.dlq_entry_uuid = l.dlq_entry_uuid
