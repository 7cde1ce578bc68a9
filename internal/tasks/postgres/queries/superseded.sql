-- The investigations that the newest transition of a task, a retry, superseded.
select l.entry_uuid, bool_and(l.closed_at is not null)
from postrider.tasker_letter l
join postrider.tasker_tasks k on k.task_uuid = l.task_uuid
where l.task_uuid = $1::uuid and l.entry_uuid is not null and l.superseded_at >= k.state_entered_at
group by l.entry_uuid
order by l.entry_uuid
