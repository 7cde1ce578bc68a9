-- Closes those of the investigations that are pending.
update postrider.dlq_entry e
set resolution_status = $2::postrider.dlq_resolution_status, resolution_timestamp = now(), updated_at = now(),
    resolution_notes = coalesce(nullif($3, ''), e.resolution_notes), resolved_by = coalesce(nullif($4, ''), e.resolved_by)
from (select w.id from unnest($1::uuid[]) as w(id)) w
where e.dlq_entry_uuid = w.id and e.resolution_status = 'pending'
returning e.dlq_entry_uuid
