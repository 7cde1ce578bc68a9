-- Notes what became of redrives. One that somebody else looks at is left to them. What is gone was delivered, unless
-- its letter is here: then it was given up, its investigation is closed, and its retention is over.
with open as materialized (
    select r.replay_id,
           case when w.fate <> 'gone' then w.fate
                when exists (select from postrider.dlq_letter l where l.letter_id = 'event:' || r.event_id || ':' || (r.episode + 1)) then 'came_back'
                else 'delivered' end as fate
    from unnest($1::text[], $2::text[]) as w(replay_id, fate)
    join postrider.dlq_replay r on r.replay_id = w.replay_id
    where r.outcome is null
    order by r.replay_id
    for update of r skip locked
)
update postrider.dlq_replay r set outcome = o.fate, finished_at = now()
from open o where r.replay_id = o.replay_id
returning r.dlq_entry_uuid, r.replay_id, r.dlq_operation_uuid, r.outcome
