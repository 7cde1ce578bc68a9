delete from postrider.dlq_entry e where e.dlq_entry_uuid = any ($1::uuid[])
