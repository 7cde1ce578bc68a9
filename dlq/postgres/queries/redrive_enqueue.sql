-- Messages become new events, in the given order. Null is none; 0 and -1 are explained at the function.
select w.place, postrider.outbox_resend(
           w.event_id, w.topic, l.outbox_id, l.event_id,
           l.key, l.key_kind = 'reference',
           case when w.edited_payload then w.payload else l.payload end, l.payload_kind = 'reference' and not w.edited_payload,
           coalesce(w.headers::jsonb, l.headers), w.added::jsonb)
from unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::boolean[], $6::bytea[], $7::text[]) with ordinality
    as w(letter_id, event_id, topic, added, edited_payload, payload, headers, place)
join postrider.dlq_letter l on l.letter_id = w.letter_id
order by w.place
