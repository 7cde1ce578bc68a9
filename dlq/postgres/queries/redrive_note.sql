-- Redrives of investigations, each with its generation. Nothing of an investigation changes.
insert into postrider.dlq_replay (replay_id, dlq_entry_uuid, generation, dlq_operation_uuid, letter_id, outbox_id, event_id, in_place, episode, target, edited, actor)
select w.entry::text || ':' || w.generation, w.entry, w.generation, $1, w.letter_id, w.outbox_id, w.event_id, w.in_place, w.episode, w.target, w.edited, $3
from unnest($4::uuid[], $5::integer[], $6::text[], $7::bigint[], $8::uuid[], $9::boolean[], $10::integer[], $11::text[], $2::boolean[])
    as w(entry, generation, letter_id, outbox_id, event_id, in_place, episode, target, edited)
