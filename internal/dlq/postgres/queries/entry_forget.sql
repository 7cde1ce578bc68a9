-- Removes the $2 investigations that were closed first, if that is longer ago than $1 microseconds. One that another
-- session has locked is skipped. The condition on the status is written so that no index serves it.
with old as materialized (
    select e.dlq_entry_uuid
    from postrider.dlq_entry e
    where e.resolution_timestamp < now() - $1::bigint * interval '1 microsecond' and e.resolution_status::text <> 'pending'
    order by e.resolution_timestamp limit $2
    for update skip locked
)
delete from postrider.dlq_entry e where e.dlq_entry_uuid = any (array(select o.dlq_entry_uuid from old o))
