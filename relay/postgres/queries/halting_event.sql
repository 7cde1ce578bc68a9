-- The event that a hold comes from; the hold's row is locked.
select coalesce((select e.id from postrider.outbox_event e
                 where e.event_id = h.event_id and e.state in ('exhausted', 'dead_lettered') order by e.id desc limit 1), 0), h.draining
from postrider.outbox_hold h where h.hold_id = $1 for update of h
