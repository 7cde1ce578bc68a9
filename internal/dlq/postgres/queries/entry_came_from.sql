-- entry_came_from
-- Which of these dead letters are of redriven messages: their places, from 1, the investigations that they come from, if
-- still there, their groups, and whether the relay gave the message up. Letters of the relay are known by their event, which is one
-- of the source $3.
-- Letters of consumers are known by the header that came along, which any client may write: what comes from one source came from
-- no investigation of another.
select w.place, p.dlq_entry_uuid, p.dlq_group_uuid, w.event_id is not null
from unnest($1::uuid[], $2::text[], $3::text[]) with ordinality as w (event_id, redrive_id, source, place)
cross join lateral (
    (select r.dlq_entry_uuid from postrider.dlq_redrive r where r.event_id = w.event_id and not r.in_place and r.source = w.source limit 1)
    union all
    (select r.dlq_entry_uuid from postrider.dlq_redrive r where w.event_id is null and r.redrive_id = w.redrive_id limit 1)) r
cross join lateral (
    select p.dlq_entry_uuid, p.dlq_group_uuid from postrider.dlq_entry p where p.dlq_entry_uuid = r.dlq_entry_uuid
        and p.source = w.source limit 1) p
