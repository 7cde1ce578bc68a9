-- How many investigations these groups have of a time, up to a bound.
select count(*) from (
    select
    from unnest($1::uuid[], $2::postrider.dlq_resolution_status[]) as k (id, status)
    cross join lateral (
        select from postrider.dlq_entry e
        where e.dlq_group_uuid = k.id and e.resolution_status = k.status
          and ($3::timestamptz is null or (e.created_at at time zone 'UTC') >= ($3 at time zone 'UTC'))
          and ($4::timestamptz is null or (e.created_at at time zone 'UTC') <= ($4 at time zone 'UTC'))
          and ($5::text = '' or e.dlq_reason::text = $5)
          and ($6::text = '' or e.subject_type || '' = $6)
        limit $7) p
    limit $7) counted
