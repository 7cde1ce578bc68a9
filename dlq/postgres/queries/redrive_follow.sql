-- Redrives that ended, of the $2 oldest open ones after outbox id $1, and how far that was. One that somebody
-- else looks at is left to them.
with open as (
    select r.replay_id, r.outbox_id, r.event_id, r.episode
    from postrider.dlq_replay r
    where r.outcome is null and r.outbox_id > $1
    order by r.outbox_id limit $2
    for update of r skip locked
), ended as materialized (
    select o.replay_id, postrider.outbox_fate(o.outbox_id, o.event_id, o.episode) as fate from open o
), marked as (
    update postrider.dlq_replay r set outcome = e.fate, finished_at = now()
    from ended e where r.replay_id = e.replay_id and e.fate <> 'waiting'
    returning r.dlq_entry_uuid, r.dlq_operation_uuid, r.outcome
), counted as (
    update postrider.dlq_operation p
    set delivered = p.delivered + m.delivered, came_back = p.came_back + m.came_back, updated_at = now()
    from (select dlq_operation_uuid, count(*) filter (where outcome = 'delivered') as delivered,
                 count(*) filter (where outcome = 'came_back') as came_back
          from marked where dlq_operation_uuid is not null group by 1) m
    where p.dlq_operation_uuid = m.dlq_operation_uuid
)
select coalesce(array_agg(m.dlq_entry_uuid order by m.dlq_entry_uuid) filter (where m.outcome = 'delivered'), '{}'),
       count(*) filter (where m.outcome = 'came_back'),
       (select count(*) from open), (select coalesce(max(outbox_id), 0) from open)
from marked m
