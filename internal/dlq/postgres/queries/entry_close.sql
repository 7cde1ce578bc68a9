-- Closes the pending ones of the investigations, locked in an order that every session keeps. $3 are the notes of
-- each; an empty one changes nothing. The status is asked for in words that no partial index has; see redrive_end.
with open as materialized (
    select e.dlq_entry_uuid, w.notes
    from (select w.id, w.notes from unnest($1::uuid[], $3::text[]) as w(id, notes) order by w.id) w
    cross join lateral (
        select e.dlq_entry_uuid from postrider.dlq_entry e
        where e.dlq_entry_uuid = w.id and e.resolution_status::text = 'pending' for no key update) e
)
update postrider.dlq_entry e
set resolution_status = $2::postrider.dlq_resolution_status, resolution_timestamp = now(), updated_at = now(),
    resolution_notes = coalesce(nullif(o.notes, ''), e.resolution_notes), resolved_by = coalesce(nullif($4, ''), e.resolved_by)
from open o where e.dlq_entry_uuid = o.dlq_entry_uuid
returning e.dlq_entry_uuid
