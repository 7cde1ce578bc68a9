-- The messages of the newest investigations of a group, $2 at most, as the narrower fingerprint tells them apart. The first two
-- limits are read from the index alone.
with newest as (
    select n.dlq_entry_uuid, n.created_at
    from unnest(enum_range(null::postrider.dlq_resolution_status)) s
    cross join lateral (
        select e.dlq_entry_uuid, e.created_at from postrider.dlq_entry e
        where e.dlq_group_uuid = $1 and e.resolution_status = s
        order by (e.created_at at time zone 'UTC') desc, e.dlq_entry_uuid desc limit $2::integer) n
    order by n.created_at desc, n.dlq_entry_uuid desc limit $2
), variants as (
    select count(*) as entries, (array_agg(n.dlq_entry_uuid order by n.created_at desc, n.dlq_entry_uuid desc))[1] as newest, max(n.created_at) as opened_at
    from newest n
    cross join lateral (select coalesce(e.fingerprint_exact, left(e.error_message, 200), '') as variant
                        from postrider.dlq_entry e where e.dlq_entry_uuid = n.dlq_entry_uuid offset 0) e
    group by e.variant
    order by max(n.created_at) desc, 2 desc limit $3
)
select (select coalesce(left(e.error_message, 500), '') from postrider.dlq_entry e where e.dlq_entry_uuid = v.newest), v.entries, v.newest, v.opened_at
from variants v order by v.opened_at desc, v.newest desc
