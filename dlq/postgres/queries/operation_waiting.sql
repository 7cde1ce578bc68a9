-- The next items, and whether their investigations are there.
select i.item, i.dlq_entry_uuid, exists (select from postrider.dlq_entry e where e.dlq_entry_uuid = i.dlq_entry_uuid)
from postrider.dlq_operation_item i
where i.dlq_operation_uuid = $1 and i.state = 'waiting'
order by i.item limit $2
