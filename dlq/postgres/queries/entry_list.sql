select dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason::text, dlq_timestamp,
       resolution_status::text, resolution_timestamp, resolution_notes, resolved_by, topic, error_code,
       error_message, occurrences, last_occurred_at, predecessor_uuid, null::jsonb as snapshot, metadata,
       created_at, updated_at
from postrider.dlq_entry
where ($1::text = '' or resolution_status = nullif($1::text, '')::postrider.dlq_resolution_status)
  and ($2::text = '' or dlq_reason = nullif($2::text, '')::postrider.dlq_reason)
  and ($3::text = '' or subject_type = $3)
  and ($4::text = '' or subject_id = $4)
  and ($5::text = '' or topic = $5)
order by created_at desc, dlq_entry_uuid desc
limit $6 offset $7
