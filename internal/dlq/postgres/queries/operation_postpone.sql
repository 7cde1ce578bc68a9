-- A batch failed and is made again later. If more than $4 items are treated, another session
-- went on with the operation meanwhile, and nothing is changed.
update postrider.dlq_operation
set next_at = clock_timestamp() + $2::bigint * interval '1 microsecond', error = $3, updated_at = now()
where dlq_operation_uuid = $1 and state in ('canary', 'running') and done + skipped + failed = $4::bigint
