-- A batch failed and is made again later. An operation with which somebody else went on meanwhile, of which more than $4 items
-- are treated, needs nothing.
update postrider.dlq_operation
set next_at = clock_timestamp() + $2::bigint * interval '1 microsecond', error = $3, updated_at = now()
where dlq_operation_uuid = $1 and state in ('canary', 'running') and done + skipped + failed = $4::bigint
