-- Items of an operation behind place $2; in state $4, where one is given.
select item, dlq_entry_uuid, state, coalesce(reason, '')
from postrider.dlq_operation_item
where dlq_operation_uuid = $1::uuid and item > $2::bigint and ($4::text = '' or state = $4)
order by item limit $3::bigint
