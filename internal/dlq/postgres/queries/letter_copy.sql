-- letter_copy
-- Letters in an order that every collector keeps. If another session recorded one meanwhile, the whole copy fails.
copy postrider.dlq_letter (
    letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, dlq_record_at,
    origin_topic, origin_partition, origin_offset, consumer_group, event_id, episode, outbox_id,
    key, payload, payload_kind, payload_bytes, headers, error_class, error_code, error_message,
    attempts, first_failed_at, last_failed_at, key_kind, retry_topic, original_record, hops, error_category, source, source_outbox_id, halts_key)
from stdin (format binary)
