-- Items of operations that were sent to their sources, and that these refused: $3 are the reasons. They count as skipped, and
-- what the outbox does not take as failed. Operations are locked in an order that everybody keeps, and their items after them.
with given as materialized (
    select * from unnest($1::uuid[], $2::uuid[], $3::text[]) as w(operation, entry, reason)
), locked as materialized (
    select p.dlq_operation_uuid from (select distinct g.operation from given g) w
    join postrider.dlq_operation p on p.dlq_operation_uuid = w.operation
    order by p.dlq_operation_uuid for update of p
), items as (
    update postrider.dlq_operation_item i set state = case w.reason when 'refused' then 'failed' else 'skipped' end, reason = w.reason, outcome = null
    from given w join locked l on l.dlq_operation_uuid = w.operation
    cross join lateral (
        select x.ctid as place from postrider.dlq_operation_item x where x.dlq_operation_uuid = w.operation and x.dlq_entry_uuid = w.entry limit 1) x
    where i.ctid = x.place and i.state = 'done'
    returning i.dlq_operation_uuid, i.state
), counted as (
    select i.dlq_operation_uuid, count(*) filter (where i.state = 'skipped') as skipped, count(*) filter (where i.state = 'failed') as failed
    from items i group by i.dlq_operation_uuid
)
update postrider.dlq_operation p
set done = p.done - c.skipped - c.failed, skipped = p.skipped + c.skipped, failed = p.failed + c.failed, updated_at = now()
from counted c where p.dlq_operation_uuid = c.dlq_operation_uuid
