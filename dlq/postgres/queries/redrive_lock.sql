-- Investigations, locked in an order that everybody keeps.
select e.dlq_entry_uuid
from unnest($1::uuid[]) as w(id)
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id
order by e.dlq_entry_uuid
for update of e
