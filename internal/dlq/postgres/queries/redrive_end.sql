-- Notes the ends of redrives. One that another session has locked is skipped. An event that is gone was delivered, unless
-- its letter is here: then it was given up, its investigation is closed, and its retention is over. A redrive that was undone was
-- none: its row goes.
-- The condition is not in the words of dlq_redrive_open: where statistics know of nothing on its way, all of that looks
-- like one page to read, for each of these.
with open as materialized (
    select r.redrive_id,
           case when w.fate <> 'gone' then w.fate
                when (select true from postrider.dlq_letter l where l.letter_id = case r.source when 'main' then '' else r.source || '/' end || 'event:' || r.event_id || ':' || (r.episode + 1) limit 1)
                    then 'came_back'
                else 'delivered' end as fate
    from (select w.redrive_id, w.fate from unnest($1::text[], $2::text[]) as w(redrive_id, fate) order by w.redrive_id) w
    cross join lateral (
        select r.redrive_id, r.event_id, r.episode, r.source from postrider.dlq_redrive r
        where r.redrive_id = w.redrive_id and num_nulls(r.outcome) = 1 for update skip locked) r
), delivered as (
    update postrider.dlq_redrive r set outcome = 'delivered', finished_at = now()
    where r.redrive_id = any (array(select o.redrive_id from open o where o.fate = 'delivered'))
    returning r.dlq_entry_uuid, r.redrive_id, r.dlq_operation_uuid, r.outcome
), came_back as (
    update postrider.dlq_redrive r set outcome = 'came_back', finished_at = now()
    where r.redrive_id = any (array(select o.redrive_id from open o where o.fate = 'came_back'))
    returning r.dlq_entry_uuid, r.redrive_id, r.dlq_operation_uuid, r.outcome
), undone as (
    delete from postrider.dlq_redrive r where r.redrive_id = any (array(select o.redrive_id from open o where o.fate = 'undone'))
)
select * from delivered union all select * from came_back
