select o.dlq_operation_uuid::text, o.name, o.state, coalesce(o.error, ''), extract(epoch from now() - o.updated_at)::float8
from postrider.dlq_operation o
where o.state in ('canary', 'running', 'paused', 'halted', 'planned')
order by o.created_at
