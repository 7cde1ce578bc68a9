-- The investigations with a dead letter about an event, of the sources $2 where these are not null.
select distinct e.dlq_entry_uuid
from postrider.dlq_letter l
join postrider.dlq_entry e on e.dlq_entry_uuid = l.dlq_entry_uuid
where l.event_id = $1 and ($2::text[] is null or e.source = any ($2))
