select dlq_operation_uuid, kind, name, coalesce(reason, ''), actor, state, scope, options, plan, items, done, skipped, failed, delivered, came_back,
       coalesce(error, ''), created_at, started_at, treated_at, finished_at, updated_at, sources
from postrider.dlq_operation where dlq_operation_uuid = $1
