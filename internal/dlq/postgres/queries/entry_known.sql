-- entry_known
-- The time of the transaction, and the places, from 1, of the subjects that have an investigation, open or closed.
-- The scalar subquery stays one look into the index for each subject, whatever statistics say; as a join it could read
-- all.
select now(), array(
    select s.place from unnest($1::text[], $2::text[]) with ordinality as s (subject_type, subject_id, place)
    where (select true from postrider.dlq_entry e
           where e.subject_type = s.subject_type and e.subject_id = s.subject_id limit 1))
