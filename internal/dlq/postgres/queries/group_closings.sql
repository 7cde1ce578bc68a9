-- How people closed the newest closed investigations of a group, $2 at most, and $3 closings. Investigations that one
-- person closed in the same words within a minute are one closing. What was closed by rule is left out. The first two limits are
-- read from the index alone.
with newest as (
    select n.dlq_entry_uuid
    from unnest(enum_range(null::postrider.dlq_resolution_status)) s
    cross join lateral (
        select e.dlq_entry_uuid, e.created_at from postrider.dlq_entry e
        where e.dlq_group_uuid = $1 and e.resolution_status = s
        order by (e.created_at at time zone 'UTC') desc, e.dlq_entry_uuid desc limit $2::integer) n
    where s <> 'pending'
    order by n.created_at desc, n.dlq_entry_uuid desc limit $2
)
select e.resolution_status::text, coalesce(e.resolution_notes, ''), coalesce(e.resolved_by, ''), count(*), min(e.resolution_timestamp), max(e.resolution_timestamp)
from newest n
cross join lateral (
    select e.resolution_status, e.resolution_notes, e.resolved_by, e.resolution_timestamp
    from postrider.dlq_entry e where e.dlq_entry_uuid = n.dlq_entry_uuid offset 0) e
where e.resolved_by is distinct from 'postrider' and e.resolution_timestamp is not null
group by 1, 2, 3, date_trunc('minute', e.resolution_timestamp at time zone 'UTC')
order by 6 desc, 1, 2, 3 limit $3
