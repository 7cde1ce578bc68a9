-- Whether all of the investigations that are there are closed.
select coalesce(bool_and(e.resolution_status <> 'pending'), false) from postrider.dlq_entry e where e.dlq_entry_uuid = any($1::uuid[])
