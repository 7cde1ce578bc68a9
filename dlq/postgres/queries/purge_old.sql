-- The oldest investigations opened before $1 whose message has $2 in it, locked in that order. One that somebody has
-- in hand is passed over.
select e.dlq_entry_uuid
from postrider.dlq_entry e
where e.created_at < $1::timestamptz
  and ($2::text = '' or strpos(lower(coalesce(e.error_message, '')), lower($2::text)) > 0)
order by e.created_at, e.dlq_entry_uuid limit $3
for update of e skip locked
