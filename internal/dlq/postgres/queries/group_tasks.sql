-- The tasks behind the pending investigations of a group that were opened until $2, behind place ($3, $4), the oldest first. One
-- that has no task is a row as well, so that $5 bounds how many are looked at. Group and status are compared as a part of the
-- place, so that no other index than that of groups serves them.
select e.dlq_entry_uuid, e.created_at, e.task_uuid from postrider.dlq_entry e
where (e.dlq_group_uuid, e.resolution_status, (e.created_at at time zone 'UTC')) <= ($1::uuid, 'pending', $2::timestamptz at time zone 'UTC')
  and (e.dlq_group_uuid, e.resolution_status, (e.created_at at time zone 'UTC'), e.dlq_entry_uuid)
    > ($1, 'pending', $3::timestamptz at time zone 'UTC', $4::uuid)
order by e.dlq_group_uuid, e.resolution_status, (e.created_at at time zone 'UTC'), e.dlq_entry_uuid limit $5
