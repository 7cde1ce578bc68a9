-- What dlq_redrive_letters would say of letters, in their order: 0 where the event is gone that has what would be sent, -1 where the
-- payload is beyond the limit, 1 where it would be written. With $2 the payload of all is one of $3 bytes. The outbox has what is
-- sent of its events, and what letters refer to.
select case when o.there is null and (l.of_event or l.key_kind = 'reference' or l.payload_kind = 'reference' and not $2::boolean) then 0
            when coalesce(case when $2::boolean then $3::integer when l.of_event or l.payload_kind = 'reference' then o.bytes else octet_length(l.payload) end, 0)
                 > postrider.outbox_max_payload_bytes() then -1
            else 1 end
from unnest($1::text[]) with ordinality as w(id, place)
cross join lateral (
    select l.key_kind, l.payload_kind, l.payload, l.outbox_id, l.event_id, (
               select e.subject_type = 'event' from postrider.dlq_entry e where e.dlq_entry_uuid = l.dlq_entry_uuid limit 1) as of_event
    from postrider.dlq_letter l where l.letter_id = w.id limit 1) l
left join lateral (
    select true as there, octet_length(k.payload) as bytes from postrider.outbox_look(l.outbox_id, l.event_id) k
    where l.of_event or l.key_kind = 'reference' or l.payload_kind = 'reference') o on true
order by w.place
