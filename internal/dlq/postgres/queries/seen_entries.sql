-- The investigations among $1 that are of the sources $2. Each is looked up by its key.
select e.dlq_entry_uuid from postrider.dlq_entry e where e.dlq_entry_uuid = any ($1::uuid[]) and e.source = any ($2::text[])
