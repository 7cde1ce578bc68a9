-- The outbox events that the letters of investigations are about, and whose they are.
select distinct l.outbox_id, l.dlq_entry_uuid
from unnest($1::uuid[]) as w(id)
join postrider.dlq_letter l on l.dlq_entry_uuid = w.id and l.outbox_id is not null
