-- The operation of a name and of the sources $2 that has not ended; there is one at most.
select dlq_operation_uuid, state, actor, created_at from postrider.dlq_operation
where name = $1 and sources = $2::text[] and state in ('canary', 'running', 'paused', 'halted', 'planned')
