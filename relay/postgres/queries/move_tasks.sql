-- The tasks of those of the events $1 that were just given up and belong to one. The function waits for nobody
-- and raises nothing about a task.
select postrider.task_events_dead_lettered(array_agg(e.id order by e.id))
from unnest($1::bigint[]) as d(id) join postrider.outbox_event e on e.id = any (array[d.id])
where e.task_uuid is not null and e.state::text = 'exhausted' -- cast, so that only the primary key fits
having count(*) > 0
