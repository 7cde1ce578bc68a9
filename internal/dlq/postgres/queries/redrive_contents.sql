-- What dlq_redrive_letters would say of letters, in their order: 0 where a letter only refers to its key or payload and the
-- event is gone, -1 where the payload is beyond the limit, 1 where it would be written. With $2 the payload of all is one of
-- $3 bytes. The outbox is asked about letters that refer to it, which are few.
select case when (l.key_kind = 'reference' or l.payload_kind = 'reference' and not $2::boolean) and o.there is null then 0
            when coalesce(case when $2::boolean then $3::integer when l.payload_kind = 'reference' then o.bytes else octet_length(l.payload) end, 0)
                 > postrider.outbox_max_payload_bytes() then -1
            else 1 end
from unnest($1::text[]) with ordinality as w(id, place)
cross join lateral (
    select l.key_kind, l.payload_kind, l.payload, l.outbox_id, l.event_id from postrider.dlq_letter l where l.letter_id = w.id limit 1) l
left join lateral (
    select true as there, octet_length(k.payload) as bytes from postrider.outbox_look(l.outbox_id, l.event_id) k
    where l.key_kind = 'reference' or l.payload_kind = 'reference') o on true
order by w.place
