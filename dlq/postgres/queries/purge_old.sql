-- The same for the oldest of those opened before $1 whose message has $2 in it. One that somebody has in hand is
-- passed over.
select e.dlq_entry_uuid, case when e.resolution_status = 'pending' then
           (select l.outbox_id from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
            order by coalesce(l.episode, 0) desc, l.recorded_at desc limit 1) end
from postrider.dlq_entry e
where e.created_at < $1::timestamptz
  and ($2::text = '' or strpos(lower(coalesce(e.error_message, '')), lower($2::text)) > 0)
order by e.created_at, e.dlq_entry_uuid limit $3
for update of e skip locked
