-- A letter of an investigation, whole; the newest unless one is named.
select letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, dlq_record_at,
       origin_topic, origin_partition, origin_offset, consumer_group, event_id, episode, outbox_id,
       key, payload, payload_kind, payload_bytes, headers, error_class, error_code, error_message,
       attempts, first_failed_at, last_failed_at, recorded_at, key_kind, retry_topic, original_record, hops, error_category, source, source_outbox_id, halts_key
from postrider.dlq_letter
where dlq_entry_uuid = $1 and ($2::text = '' or letter_id = $2)
order by recorded_at desc, dlq_record_at desc nulls last, dlq_partition desc, dlq_offset desc, letter_id desc
limit 1
