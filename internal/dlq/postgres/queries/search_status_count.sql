-- How many investigations with a status were opened in a time, up to a bound.
select count(*) from (
    select from postrider.dlq_entry e
    where e.resolution_status = $1::postrider.dlq_resolution_status
      and ($2::timestamptz is null or (e.created_at at time zone 'UTC') >= ($2 at time zone 'UTC'))
      and ($3::timestamptz is null or (e.created_at at time zone 'UTC') <= ($3 at time zone 'UTC'))
    limit $4) counted
