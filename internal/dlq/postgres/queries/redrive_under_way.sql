-- The investigations that have a redrive on its way, by the same rule as redrive_read.
select w.id
from unnest($1::uuid[]) as w(id)
cross join lateral (
    select r.outcome, r.event_id, r.episode, r.source from postrider.dlq_redrive r
    where r.dlq_entry_uuid = w.id order by r.generation desc limit 1) r
where r.outcome is null or r.outcome = 'came_back'
    and (select true from postrider.dlq_letter b where b.letter_id = case r.source when 'main' then '' else r.source || '/' end || 'event:' || r.event_id || ':' || (r.episode + 1) limit 1) is null
