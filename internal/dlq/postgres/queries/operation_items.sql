-- Items of an operation behind place $2; in state $4 and with outcome $5, where they are given. The successor of one that came
-- back dead is the first investigation since that names its investigation as predecessor.
select i.item, i.dlq_entry_uuid, i.state, coalesce(i.reason, ''), coalesce(i.outcome, ''),
       coalesce(case when i.outcome = 'came_back' then (
           select s.dlq_entry_uuid from postrider.dlq_entry s
           where s.predecessor_uuid = i.dlq_entry_uuid
             and s.created_at >= (select o.started_at from postrider.dlq_operation o where o.dlq_operation_uuid = i.dlq_operation_uuid)
           order by s.created_at limit 1) end, '00000000-0000-0000-0000-000000000000')
from postrider.dlq_operation_item i
where i.dlq_operation_uuid = $1::uuid and i.item > $2::bigint and ($4::text = '' or i.state = $4) and ($5::text = '' or i.outcome = $5)
order by i.item limit $3::bigint
