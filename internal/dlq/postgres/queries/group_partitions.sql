-- Where the letters of the newest investigations of a group came from.
select coalesce(case when l.origin_partition is not null then l.origin_topic end, l.dlq_topic), coalesce(l.origin_partition, l.dlq_partition), count(*)
from unnest(enum_range(null::postrider.dlq_resolution_status)) s
cross join lateral (
    select e.dlq_entry_uuid from postrider.dlq_entry e
    where e.dlq_group_uuid = $1 and e.resolution_status = s
    order by (e.created_at at time zone 'UTC') desc, e.dlq_entry_uuid desc limit $2::integer / 4) n
cross join lateral (
    select l.origin_partition, l.origin_topic, l.dlq_topic, l.dlq_partition
    from postrider.dlq_letter l where l.dlq_entry_uuid = n.dlq_entry_uuid limit 10) l
group by 1, 2 order by 3 desc, 1, 2
