-- The event of the newest letter of each of these investigations, if it is about an event and pending: its number in the outbox of
-- main, or else whether it halts its key, as the letter says.
select e.dlq_entry_uuid, l.outbox_id, l.halts_key
from unnest($1::uuid[]) as w (id)
cross join lateral (
    select e.dlq_entry_uuid, e.source from postrider.dlq_entry e
    where e.dlq_entry_uuid = w.id and e.subject_type || '' = 'event' and e.resolution_status::text = 'pending' limit 1) e
cross join lateral (
    select l.outbox_id, l.halts_key from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
    order by coalesce(l.episode, 0) desc, l.recorded_at desc limit 1) l
where l.outbox_id is not null or e.source <> 'main'
