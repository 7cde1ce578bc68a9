-- entry_lock
-- The pending investigations of these subjects and those of $3 that are pending, and their groups, locked in the order
-- that everybody keeps, so that none is closed before its letters are added and that nobody waits in a circle. A lock that
-- keeps others from changing them, and not from naming them as predecessors.
select e.subject_type, e.subject_id, e.dlq_group_uuid
from (
    select (select p.dlq_entry_uuid from postrider.dlq_entry p
            where p.subject_type = s.subject_type and p.subject_id = s.subject_id and p.resolution_status = 'pending') as id
    from unnest($1::text[], $2::text[]) as s (subject_type, subject_id)
    union
    select unnest($3::uuid[])
) w
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id and e.resolution_status = 'pending'
order by e.dlq_entry_uuid
for no key update of e
