delete from postrider.dlq_entry e using unnest($1::uuid[]) as w(id) where e.dlq_entry_uuid = w.id
