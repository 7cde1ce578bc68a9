-- The investigations of the list that were opened before $2 and have $3 in their message, locked in an order that every
-- session keeps. One that another session has locked is skipped.
select e.dlq_entry_uuid
from unnest($1::uuid[]) as w(id)
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id
where e.created_at < $2::timestamptz and ($3::text = '' or e.error_message ilike $3)
order by e.dlq_entry_uuid
for update of e skip locked
