-- A page of the investigations with a status.
select e.dlq_entry_uuid, e.created_at
from postrider.dlq_entry e
where e.resolution_status = $1::postrider.dlq_resolution_status
  and ($2::timestamptz is null or (e.created_at at time zone 'UTC') >= ($2 at time zone 'UTC'))
  and ($3::timestamptz is null or (e.created_at at time zone 'UTC') <= ($3 at time zone 'UTC'))
  and ($4::timestamptz is null or (e.created_at at time zone 'UTC', e.dlq_entry_uuid) </*way*/ ($4 at time zone 'UTC', $5::uuid))
order by (e.created_at at time zone 'UTC') desc/*way*/, e.dlq_entry_uuid desc/*way*/
limit $6 offset $7
