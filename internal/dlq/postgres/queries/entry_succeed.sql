-- entry_succeed
-- Investigations name the ones that they come from, where these are still there.
update postrider.dlq_entry e set predecessor_uuid = p.dlq_entry_uuid
from unnest($1::uuid[], $2::uuid[]) as w (entry, predecessor)
join postrider.dlq_entry p on p.dlq_entry_uuid = w.predecessor
where e.dlq_entry_uuid = w.entry
