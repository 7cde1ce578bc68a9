insert into postrider.dlq_operation (kind, name, reason, actor, state, scope, options)
values ($1, $2, nullif($3, ''), $4, 'planned', $5, $6)
returning dlq_operation_uuid, created_at
