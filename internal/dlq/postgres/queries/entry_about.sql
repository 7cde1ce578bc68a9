-- The investigations with a dead letter about an event, of a source where it is not empty.
select distinct e.dlq_entry_uuid
from postrider.dlq_letter l
join postrider.dlq_entry e on e.dlq_entry_uuid = l.dlq_entry_uuid
where l.event_id = $1 and ($2 = '' or e.source = $2)
