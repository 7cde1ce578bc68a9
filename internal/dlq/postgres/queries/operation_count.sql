-- Counts redrives that ended. Operations are locked in an order that everybody keeps.
with locked as materialized (
    select p.dlq_operation_uuid, w.delivered, w.came_back
    from unnest($1::uuid[], $2::bigint[], $3::bigint[]) as w(id, delivered, came_back)
    join postrider.dlq_operation p on p.dlq_operation_uuid = w.id
    order by p.dlq_operation_uuid
    for update of p
)
update postrider.dlq_operation p
set delivered = p.delivered + l.delivered, came_back = p.came_back + l.came_back, updated_at = now()
from locked l where p.dlq_operation_uuid = l.dlq_operation_uuid
