-- The outbox events that the letters of investigations are about, and whose they are.
select distinct l.outbox_id, w.id
from unnest($1::uuid[]) as w(id)
cross join lateral (
    select l.outbox_id from postrider.dlq_letter l where l.dlq_entry_uuid = w.id and l.outbox_id is not null offset 0) l
