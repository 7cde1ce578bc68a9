-- The tasks of those of the events $1 that were just given up and belong to one. The function waits for nobody
-- and raises nothing about a task.
select postrider.outbox_tell_tasks(array_agg(d.id order by d.id)) from unnest($1::bigint[]) as d(id) having count(*) > 0
