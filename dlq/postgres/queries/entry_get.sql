select dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason::text, dlq_timestamp,
       resolution_status::text, resolution_timestamp, resolution_notes, resolved_by, topic, error_code,
       error_message, occurrences, last_occurred_at, predecessor_uuid, snapshot, metadata,
       created_at, updated_at
from postrider.dlq_entry
where dlq_entry_uuid = $1
