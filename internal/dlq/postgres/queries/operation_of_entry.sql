-- The newest operations that an investigation is in, with what became of it there. They are looked up by the investigation.
select o.dlq_operation_uuid, o.kind, o.name, o.actor, o.state, o.created_at, o.started_at, i.state, coalesce(i.reason, ''), coalesce(i.outcome, '')
from postrider.dlq_operation_item i
join postrider.dlq_operation o on o.dlq_operation_uuid = i.dlq_operation_uuid
where i.dlq_entry_uuid = $1::uuid
order by o.created_at desc, o.dlq_operation_uuid desc limit $2::bigint
