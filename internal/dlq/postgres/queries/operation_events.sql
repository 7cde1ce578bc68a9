-- The outbox events that the letters of an operation's scope are about.
select l.outbox_id
from postrider.dlq_operation_item i
join postrider.dlq_letter l on l.dlq_entry_uuid = i.dlq_entry_uuid
where i.dlq_operation_uuid = $1 and l.outbox_id is not null
