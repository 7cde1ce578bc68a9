-- Groups that are not there yet, in an order that every collector keeps. A clock of others that is ahead says now.
insert into postrider.dlq_group (fingerprint, fingerprint_version, parts, title, topic, error_code, word, first_seen_at, last_seen_at)
select n.fingerprint, $2, n.parts::jsonb, n.title, nullif(n.topic, ''), nullif(n.error_code, ''), n.word, least(n.seen_at, now()),
    least(n.seen_at, now())
from unnest($1::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[]) with ordinality
    as n (fingerprint, parts, title, topic, error_code, word, seen_at, place)
order by n.place
on conflict (fingerprint) do nothing
