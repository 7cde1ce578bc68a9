-- Letters in an order that every collector keeps. One that somebody else recorded meanwhile is left out
-- of the count of rows.
insert into postrider.dlq_letter (
    letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, dlq_record_at,
    origin_topic, origin_partition, origin_offset, consumer_group, event_id, episode, outbox_id,
    key, payload, payload_kind, payload_bytes, headers, error_class, error_code, error_message,
    attempts, first_failed_at, last_failed_at, key_kind, retry_topic, original_record, hops)
select l.letter_id, l.dlq_entry_uuid, l.dialect, l.dlq_topic, l.dlq_partition, l.dlq_offset, l.dlq_record_at,
       nullif(l.origin_topic, ''), l.origin_partition, l.origin_offset, nullif(l.consumer_group, ''), l.event_id, l.episode, l.outbox_id,
       l.key, l.payload, l.payload_kind, l.payload_bytes, l.headers::jsonb, nullif(l.error_class, ''), nullif(l.error_code, ''), nullif(l.error_message, ''),
       l.attempts, l.first_failed_at, l.last_failed_at, l.key_kind, nullif(l.retry_topic, ''), nullif(l.original_record, ''), l.hops
from unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::integer[], $6::bigint[], $7::timestamptz[],
            $8::text[], $9::integer[], $10::bigint[], $11::text[], $12::uuid[], $13::integer[], $14::bigint[],
            $15::bytea[], $16::bytea[], $17::text[], $18::bigint[], $19::text[], $20::text[], $21::text[], $22::text[],
            $23::integer[], $24::timestamptz[], $25::timestamptz[], $26::text[], $27::text[], $28::text[], $29::integer[]) with ordinality
    as l (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, dlq_record_at,
          origin_topic, origin_partition, origin_offset, consumer_group, event_id, episode, outbox_id,
          key, payload, payload_kind, payload_bytes, headers, error_class, error_code, error_message,
          attempts, first_failed_at, last_failed_at, key_kind, retry_topic, original_record, hops, place)
order by l.place
on conflict (letter_id) do nothing
