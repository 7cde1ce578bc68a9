select resolution_status::text, resolution_timestamp, coalesce(resolved_by, ''), coalesce(assignee, ''), source from postrider.dlq_entry where dlq_entry_uuid = $1 for no key update
