select count(*)
from postrider.dlq_entry
where ($1::text = '' or resolution_status = nullif($1::text, '')::postrider.dlq_resolution_status)
  and ($2::text = '' or dlq_reason = nullif($2::text, '')::postrider.dlq_reason)
  and ($3::text = '' or subject_type = $3)
  and ($4::text = '' or subject_id = $4)
  and ($5::text = '' or topic = $5)
