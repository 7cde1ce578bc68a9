-- Items of an operation that wait, behind place $2; as operation_waiting reads them.
select i.item, i.dlq_entry_uuid, i.state, coalesce(i.reason, ''), '', '00000000-0000-0000-0000-000000000000'::uuid
from postrider.dlq_operation_item i
where i.dlq_operation_uuid = $1::uuid and i.state = 'waiting'
  and i.item + 0 > greatest($2::bigint, (select o.treated_through from postrider.dlq_operation o where o.dlq_operation_uuid = $1::uuid))
order by i.item + 0 limit $3::bigint
