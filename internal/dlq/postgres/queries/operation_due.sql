-- The operation that has waited longest for its next batch. One that another session treats is
-- skipped. Its scope, which may name very many investigations, is not read for each batch.
select dlq_operation_uuid, kind, name, coalesce(reason, ''), actor, state, '{}'::jsonb as scope, options, plan, items, done, skipped, failed, delivered, came_back,
       coalesce(error, ''), created_at, started_at, treated_at, finished_at, updated_at
from postrider.dlq_operation
where state in ('canary', 'running') and coalesce(next_at, '-infinity') <= clock_timestamp()
order by coalesce(next_at, '-infinity'), created_at limit 1
for update skip locked
