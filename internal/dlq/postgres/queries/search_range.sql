-- A page of all investigations of a time, in their order.
select e.dlq_entry_uuid, e.created_at/*order*/
from postrider.dlq_entry e
where ($1::timestamptz is null or e.created_at >= $1) and ($2::timestamptz is null or e.created_at <= $2)
  and ($3::timestamptz is null or (e.created_at/*order*/, e.dlq_entry_uuid) </*way*/ ($3, $4::uuid))
order by e.created_at/*order*/ desc/*way*/, e.dlq_entry_uuid desc/*way*/
limit $5 offset $6
