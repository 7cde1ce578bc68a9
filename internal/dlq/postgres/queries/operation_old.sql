-- The operation that ended first, if that is longer ago than $1 microseconds. One that another session
-- removes is skipped.
select dlq_operation_uuid from postrider.dlq_operation
where state in ('completed', 'aborted') and finished_at < now() - $1::bigint * interval '1 microsecond'
order by finished_at limit 1
for update skip locked
