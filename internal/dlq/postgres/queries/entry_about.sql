-- The investigations with a dead letter about an event.
select distinct l.dlq_entry_uuid from postrider.dlq_letter l where l.event_id = $1 and l.dlq_entry_uuid is not null
