-- The snapshot of an investigation, which is locked.
select snapshot::text from postrider.dlq_entry where dlq_entry_uuid = $1
