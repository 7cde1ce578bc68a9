-- The operations that have not ended and have yet to treat investigations of this one, the ones with the most first; how many
-- of its items each has, and how many items all of them have together. Nearly always there is no such operation, and then no
-- item is read.
with open as materialized (
    select o.dlq_operation_uuid, o.name, o.state from postrider.dlq_operation o
    where o.state in ('canary', 'running', 'paused', 'halted', 'planned') and o.dlq_operation_uuid <> $1
), shared as materialized (
    select i.item, x.dlq_operation_uuid
    from postrider.dlq_operation_item i
    join postrider.dlq_operation_item x on x.dlq_entry_uuid = i.dlq_entry_uuid
    where exists (select from open) and i.dlq_operation_uuid = $1 and x.state = 'waiting'
      and x.dlq_operation_uuid = any (array(select p.dlq_operation_uuid from open p))
)
select p.dlq_operation_uuid, p.name, p.state, s.items, (select count(distinct h.item) from shared h)
from (select h.dlq_operation_uuid, count(*) as items from shared h group by h.dlq_operation_uuid) s
join open p using (dlq_operation_uuid)
order by s.items desc, p.dlq_operation_uuid
