-- Of redrives, those whose message is in a letter of their own investigation: the consumer group to which it was sent
-- failed at it again, and its letter has the event of the redrive.
select r.replay_id
from unnest($1::text[]) as w(id)
cross join lateral (
    select r.replay_id, r.in_place, r.dlq_entry_uuid, r.event_id from postrider.dlq_replay r where r.replay_id = w.id limit 1) r
where not r.in_place
  and (select true from postrider.dlq_letter l where l.dlq_entry_uuid = r.dlq_entry_uuid and l.event_id = r.event_id limit 1)
