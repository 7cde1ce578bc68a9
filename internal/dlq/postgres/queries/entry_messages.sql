select e.dlq_entry_uuid, coalesce(left(e.error_message, 500), '') from postrider.dlq_entry e where e.dlq_entry_uuid = any($1::uuid[])
