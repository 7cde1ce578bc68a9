-- How many investigations were opened in a time, up to a bound.
select count(*) from (
    select from postrider.dlq_entry e
    where ($1::timestamptz is null or e.created_at >= $1) and ($2::timestamptz is null or e.created_at <= $2)
    limit $3) counted
