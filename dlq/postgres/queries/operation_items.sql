select item, dlq_entry_uuid, state, coalesce(reason, '')
from postrider.dlq_operation_item
where dlq_operation_uuid = $1 and item > $2 and ($3 = '' or state = $3)
order by item limit $4
