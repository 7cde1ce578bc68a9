-- After how many microseconds an operation is due; null if none waits.
select (extract(epoch from min(coalesce(next_at, '-infinity'::timestamptz)) - clock_timestamp()) * 1000000)::bigint
from postrider.dlq_operation where state in ('canary', 'running') and next_at > '-infinity'
