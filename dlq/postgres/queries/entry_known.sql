-- entry_known
-- The time of the transaction, and whether any of these subjects has an investigation, open or closed. The scalar
-- subquery stays one look into the index for each subject, whatever statistics say; as a join it could read all.
select now(), exists (
    select from unnest($1::text[], $2::text[]) as s (subject_type, subject_id)
    where (select true from postrider.dlq_entry e
           where e.subject_type = s.subject_type and e.subject_id = s.subject_id limit 1))
