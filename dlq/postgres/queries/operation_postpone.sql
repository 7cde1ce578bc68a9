-- A batch failed and is made again later. An operation that somebody else has in hand needs nothing.
update postrider.dlq_operation p
set next_at = clock_timestamp() + $2::bigint * interval '1 microsecond', error = $3, updated_at = now()
from (select o.dlq_operation_uuid from postrider.dlq_operation o
      where o.dlq_operation_uuid = $1 and o.state in ('canary', 'running') for update skip locked) o
where p.dlq_operation_uuid = o.dlq_operation_uuid
