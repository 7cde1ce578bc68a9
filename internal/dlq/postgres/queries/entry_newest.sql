-- The newest investigation of a subject.
select dlq_entry_uuid from postrider.dlq_entry
where subject_type = $1 and subject_id = $2
order by created_at desc, dlq_entry_uuid desc limit 1
