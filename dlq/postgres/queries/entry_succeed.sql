-- Investigations of what was redriven and died again name the one that they come from, where that is still there. The
-- relay's letters are known by their event. Those of consumers by the header that came along; of these it is only
-- named, because anybody may write a header.
with came_from as materialized (
    select w.entry, r.dlq_entry_uuid as predecessor, w.event_id is not null as ours
    from unnest($1::uuid[], $2::uuid[]) as w(entry, event_id)
    join postrider.dlq_replay r on r.event_id = w.event_id and not r.in_place
    union all
    select w.entry, r.dlq_entry_uuid, false
    from unnest($1::uuid[], $2::uuid[], $3::text[]) as w(entry, event_id, replay_id)
    join postrider.dlq_replay r on r.replay_id = w.replay_id
    where w.event_id is null
)
update postrider.dlq_entry e set predecessor_uuid = c.predecessor
from came_from c
join postrider.dlq_entry p on p.dlq_entry_uuid = c.predecessor
where e.dlq_entry_uuid = c.entry and c.entry <> c.predecessor
returning e.dlq_entry_uuid, c.predecessor, c.ours
