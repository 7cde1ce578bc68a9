-- The redrives whose message a consumer group gave up again, as far as its letter is here. True if that letter is in the
-- same investigation and came of this redrive, as the header that the message took along says (it was sent to the group
-- alone); false if it has opened another investigation since, which names this one.
select r.redrive_id, coalesce(a.same, false)
from unnest($1::text[]) as w(id)
cross join lateral (
    select r.redrive_id, r.in_place, r.dlq_entry_uuid, r.event_id, r.created_at from postrider.dlq_redrive r where r.redrive_id = w.id limit 1) r
cross join lateral (
    select (select true from postrider.dlq_letter l where l.dlq_entry_uuid = r.dlq_entry_uuid
              and l.headers @> jsonb_build_array(jsonb_build_array('replay_id', r.redrive_id)) limit 1) as same,
           (select true from postrider.dlq_entry s where s.predecessor_uuid = r.dlq_entry_uuid and s.created_at >= r.created_at limit 1) as other) a
where not r.in_place and (a.same or a.other)
