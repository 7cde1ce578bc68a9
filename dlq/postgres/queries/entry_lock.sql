-- The pending investigations of these subjects and their groups, locked in the given order, so that none is closed
-- before the letters are added and that no two collectors wait for each other.
select e.subject_type, e.subject_id, e.dlq_group_uuid
from unnest($1::text[], $2::text[]) with ordinality as s (subject_type, subject_id, place)
join postrider.dlq_entry e
    on e.subject_type = s.subject_type and e.subject_id = s.subject_id and e.resolution_status = 'pending'
order by s.place
for update of e
