-- The operation that has waited longest goes next, so that all take turns. An operation that another session treats is
-- skipped: two sessions never work on the same items. No batch needs the scope.
select dlq_operation_uuid, kind, name, coalesce(reason, ''), actor, state, '{}'::jsonb as scope, options, plan, items, done, skipped,
    failed, delivered, came_back,
       coalesce(error, ''), created_at, started_at, treated_at, finished_at, updated_at, sources
from postrider.dlq_operation
where state in ('canary', 'running') and coalesce(next_at, '-infinity') <= clock_timestamp()
order by coalesce(next_at, '-infinity'), created_at limit 1
for update skip locked
