-- The next items.
select i.item, i.dlq_entry_uuid
from postrider.dlq_operation_item i
where i.dlq_operation_uuid = $1 and i.state = 'waiting'
order by i.item limit $2
