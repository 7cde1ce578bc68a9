-- Notes a batch. The next one is due by the rate, counted from when this one was due, so that the rate is kept
-- on average; but arrears of more than a second are not made up for. Without a rate all operations take turns.
update postrider.dlq_operation
set done = done + $2, skipped = skipped + $3, failed = failed + $4, updated_at = now(), state = $5, error = nullif($6, ''),
    next_at = case when $7::bigint = 0 then clock_timestamp()
                   else greatest(coalesce(next_at, clock_timestamp()),
                       clock_timestamp() - interval '1 second') + $7::bigint * interval '1 microsecond' end,
    treated_through = greatest(treated_through, $9),
    treated_at = case when $8::boolean then coalesce(treated_at, now()) else treated_at end,
    finished_at = case when $5 in ('completed', 'aborted') then coalesce(finished_at, now()) else finished_at end
where dlq_operation_uuid = $1
