-- Messages become new events, in the given order. 0 and -1 are explained at the function.
select w.place, postrider.outbox_resend(w.letter_id, w.event_id, w.topic, w.edited, w.payload, w.headers::jsonb)
from unnest($1::text[], $2::uuid[], $3::text[], $4::boolean[], $5::bytea[], $6::text[]) with ordinality
    as w(letter_id, event_id, topic, edited, payload, headers, place)
order by w.place
