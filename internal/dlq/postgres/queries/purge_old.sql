-- The investigations of the list that were opened before $2, have $3 in their message, the reason $4 and the status $5, locked in an order that every
-- session keeps. One that another session has locked is skipped.
select e.dlq_entry_uuid
from unnest($1::uuid[]) as w(id)
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id
where e.created_at < $2::timestamptz and ($3::text = '' or coalesce(e.error_message, '') || coalesce(' | ' || e.root_cause, '') || coalesce(' | ' || e.root_frame, '') ilike $3)
  and ($4::text = '' or (select g.word from postrider.dlq_group g where g.dlq_group_uuid = e.dlq_group_uuid) = $4)
  and ($5::text = '' or e.resolution_status::text = $5)
order by e.dlq_entry_uuid
for update of e skip locked
