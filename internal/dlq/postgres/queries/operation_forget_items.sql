delete from postrider.dlq_operation_item i
using (select item from postrider.dlq_operation_item where dlq_operation_uuid = $1 order by item limit $2) w
where i.dlq_operation_uuid = $1 and i.item = w.item
