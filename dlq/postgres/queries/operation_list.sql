select dlq_operation_uuid, kind, name, coalesce(reason, ''), actor, state, scope, options, plan, items, done, skipped, failed, delivered, came_back,
       coalesce(error, ''), created_at, started_at, treated_at, finished_at, updated_at
from postrider.dlq_operation
where not $1::boolean or state in ('canary', 'running', 'paused', 'halted', 'planned')
order by created_at desc, dlq_operation_uuid desc limit $2
