-- The operation of a name that has not ended; there is one at most.
select dlq_operation_uuid, state, actor, created_at from postrider.dlq_operation
where name = $1 and state in ('canary', 'running', 'paused', 'halted', 'planned')
