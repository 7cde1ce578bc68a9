-- stats_open of the sources $2: the first and the last open investigations of each of their groups, by the index of groups.
with groups as materialized (
    select g.dlq_group_uuid from postrider.dlq_group g where g.pending > 0 and g.source = any ($2::text[])
)
select (select min(f.created_at) from groups g
        cross join lateral (select e.created_at from postrider.dlq_entry e
                            where e.dlq_group_uuid = g.dlq_group_uuid and e.resolution_status = 'pending'
                            order by (e.created_at at time zone 'UTC'), e.dlq_entry_uuid limit 1) f),
       array(select l.dlq_entry_uuid from groups g
             cross join lateral (select e.dlq_entry_uuid, e.created_at from postrider.dlq_entry e
                                 where e.dlq_group_uuid = g.dlq_group_uuid and e.resolution_status = 'pending'
                                 order by (e.created_at at time zone 'UTC') desc, e.dlq_entry_uuid desc limit $1) l
             order by l.created_at desc, l.dlq_entry_uuid desc limit $1)
