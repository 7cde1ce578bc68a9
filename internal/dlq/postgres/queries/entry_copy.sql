-- entry_copy
-- Investigations of subjects that have none, in an order that every collector keeps. If another session opened one of
-- them meanwhile, the whole copy fails.
copy postrider.dlq_entry (
    dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, topic,
    error_code, error_message, occurrences, last_occurred_at, snapshot, metadata, dlq_group_uuid, attempts, root_cause, root_frame,
    fingerprint, fingerprint_exact, task_uuid, consumer_group, dlq_topic, error_category, source)
from stdin (format binary)
