select dlq_operation_uuid, kind, name, coalesce(reason, ''), actor, state, scope, options, plan, items, done, skipped, failed, delivered, came_back,
       coalesce(error, ''), created_at, started_at, treated_at, finished_at, updated_at, sources
from postrider.dlq_operation
where ($5::text[] is null or sources <@ $5)
  and (not $1::boolean or state in ('canary', 'running', 'paused', 'halted', 'planned'))
  and ($4::uuid is null or scope->>'group' = $4::uuid::text)
  and ($3::uuid is null or (created_at, dlq_operation_uuid) < ((select p.created_at from postrider.dlq_operation p
      where p.dlq_operation_uuid = $3 and ($5::text[] is null or p.sources <@ $5)), $3::uuid))
order by created_at desc, dlq_operation_uuid desc limit $2
