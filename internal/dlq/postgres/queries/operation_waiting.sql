-- The next items, behind the treated ones.
select i.item, i.dlq_entry_uuid
from postrider.dlq_operation_item i
where i.dlq_operation_uuid = $1 and i.state = 'waiting'
  and i.item + 0 > (select o.treated_through from postrider.dlq_operation o where o.dlq_operation_uuid = $1)
order by i.item + 0 limit $2
