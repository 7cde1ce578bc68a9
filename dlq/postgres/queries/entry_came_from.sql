-- entry_came_from
-- Which of these dead letters are of messages that were redriven: their places, from 1, and the investigations that they
-- come from, where these are still there. The relay's letters are known by their event. Those of consumers by the header
-- that came along; these are not ours, because anybody may write a header.
with came_from as materialized (
    select w.place, r.dlq_entry_uuid as predecessor, true as ours
    from unnest($1::uuid[]) with ordinality as w (event_id, place)
    join postrider.dlq_replay r on r.event_id = w.event_id and not r.in_place
    union all
    select w.place, r.dlq_entry_uuid, false
    from unnest($1::uuid[], $2::text[]) with ordinality as w (event_id, replay_id, place)
    join postrider.dlq_replay r on r.replay_id = w.replay_id
    where w.event_id is null
)
select c.place, p.dlq_entry_uuid, p.dlq_group_uuid, c.ours
from came_from c
join postrider.dlq_entry p on p.dlq_entry_uuid = c.predecessor
