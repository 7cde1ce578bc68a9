-- Where the letters of the newest investigations of a group came from, $2 investigations at most. The first two limits are read
-- from the index alone.
select coalesce(case when l.origin_partition is not null then l.origin_topic end, l.dlq_topic), coalesce(l.origin_partition,
    l.dlq_partition), count(*)
from (
    select n.dlq_entry_uuid
    from unnest(enum_range(null::postrider.dlq_resolution_status)) s
    cross join lateral (
        select e.dlq_entry_uuid, e.created_at from postrider.dlq_entry e
        where e.dlq_group_uuid = $1 and e.resolution_status = s
        order by (e.created_at at time zone 'UTC') desc, e.dlq_entry_uuid desc limit $2::integer) n
    order by n.created_at desc, n.dlq_entry_uuid desc limit $2) newest
cross join lateral (
    select l.origin_partition, l.origin_topic, l.dlq_topic, l.dlq_partition
    from postrider.dlq_letter l where l.dlq_entry_uuid = newest.dlq_entry_uuid limit 10) l
group by 1, 2 order by 3 desc, 1, 2
