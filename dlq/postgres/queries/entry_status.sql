select resolution_status::text from postrider.dlq_entry where dlq_entry_uuid = $1 for update
