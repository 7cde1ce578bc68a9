-- Investigations that running redrives treat next, at most $1 of each, if a letter of the investigation points to a record
-- that could not be asked for when the letter was collected. Nearly always there is no letter like that at all, and then
-- nothing else is read.
select i.dlq_entry_uuid
from postrider.dlq_operation o
cross join lateral (
    select n.dlq_entry_uuid from postrider.dlq_operation_item n
    where n.dlq_operation_uuid = o.dlq_operation_uuid and n.state = 'waiting' and n.item + 0 > o.treated_through
    order by n.item + 0 limit $1) i
where o.kind = 'redrive' and o.state in ('canary', 'running')
  and exists (select from postrider.dlq_letter l where l.dlq_entry_uuid = i.dlq_entry_uuid and l.original_record in ('no_leader', 'refused',
      'unanswered'))
  and (select exists (select from postrider.dlq_letter l where l.original_record in ('no_leader', 'refused', 'unanswered')))
