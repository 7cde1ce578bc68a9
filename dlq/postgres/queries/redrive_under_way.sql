-- Those of the investigations of which a redrive is on its way, as redrive_read says it.
select e.dlq_entry_uuid
from unnest($1::uuid[]) as w(id)
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id
where exists (select from postrider.dlq_replay r
              where r.dlq_entry_uuid = e.dlq_entry_uuid
                and (r.outcome is null or r.outcome = 'came_back' and r.generation = e.generation
                     and not exists (select from postrider.dlq_letter b where b.letter_id = 'event:' || r.event_id || ':' || (r.episode + 1))))
