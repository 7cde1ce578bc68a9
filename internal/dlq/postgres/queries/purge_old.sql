-- Of the investigations that a search found before, the ones that still fit all that it asked for, locked in an order that
-- every session keeps: between the search and the lock a person may have closed, assigned or moved one of them, and what is
-- purged does not come back. One that another session has locked is skipped.
select e.dlq_entry_uuid
from unnest($1::uuid[]) as w(id)
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id
where e.created_at < $2::timestamptz and ($3::timestamptz is null or e.created_at >= $3)
  and ($4::text = '' or e.resolution_status::text = $4)
  and ($5::text = '' or e.dlq_reason::text = $5)
  and ($6::text = '' or e.subject_type = $6)
  and ($7::text = '' or e.subject_id = $7)
  and ($8::uuid[] is null or e.dlq_group_uuid = any ($8))
  and ($9::text = '' or e.topic = $9)
  and ($10::text = '' or e.error_code = $10)
  and ($11::text = '' or e.assignee = $11)
  and ($12::text = '' or coalesce(e.error_message, '') || coalesce(' | ' || e.root_cause, '') || coalesce(' | ' || e.root_frame, '') ilike $12)
  and ($13::text = '' or e.consumer_group = $13)
  and ($14::text = '' or e.dlq_topic = $14)
  and ($15::uuid[] is null or e.dlq_entry_uuid = any ($15))
order by e.dlq_entry_uuid
for update of e skip locked
