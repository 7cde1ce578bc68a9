-- The row of an event that was given up: the only ones that have an index by their event id, because writers would pay for
-- one of all.
select e.id from postrider.outbox_event e where e.event_id = $1 and e.state in ('exhausted', 'dead_lettered') limit 1
