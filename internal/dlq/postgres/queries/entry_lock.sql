-- entry_lock
-- The pending investigations of these subjects, and the pending investigations among $3, with their groups. They are
-- locked in the order that every session keeps: none is closed before its letters are added, and there is no deadlock.
-- The lock keeps other sessions from changing them, but not from naming them as predecessors. Each is looked up by its
-- key, whatever statistics say.
select e.subject_type, e.subject_id, e.dlq_group_uuid
from (
    select (select p.dlq_entry_uuid from postrider.dlq_entry p
            where p.subject_type = s.subject_type and p.subject_id = s.subject_id and p.resolution_status = 'pending') as id
    from unnest($1::text[], $2::text[]) as s (subject_type, subject_id)
    union
    select unnest($3::uuid[])
    order by id
) w
cross join lateral (
    select p.subject_type, p.subject_id, p.dlq_group_uuid from postrider.dlq_entry p
    where p.dlq_entry_uuid = w.id and p.resolution_status::text = 'pending' for no key update) e
