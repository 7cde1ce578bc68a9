-- Investigations of redriven events that died again name the one that they come from, where that is still there.
with came_from as materialized (
    select w.entry, r.dlq_entry_uuid as predecessor
    from unnest($1::uuid[], $2::uuid[]) as w(entry, event_id)
    join postrider.dlq_replay r on r.event_id = w.event_id and not r.in_place
    join postrider.dlq_entry p on p.dlq_entry_uuid = r.dlq_entry_uuid
    where r.dlq_entry_uuid <> w.entry
)
update postrider.dlq_entry e set predecessor_uuid = c.predecessor
from came_from c where e.dlq_entry_uuid = c.entry
returning e.dlq_entry_uuid, c.predecessor
