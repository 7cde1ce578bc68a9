-- The newest transitions of an archived task before number $2. Numbers have no gaps, so a range of them is read, whatever the statistics say.
with newest as materialized (
    select least($2::integer, (select k.sort_key + 1 from postrider.tasker_tasks_archive k where k.task_uuid = $1::uuid)) as before
)
select task_transition_uuid, task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at, archived_at
from postrider.tasker_task_transitions_archive
where task_uuid = $1 and sort_key >= (select before - $3::integer from newest) and sort_key < (select before from newest)
order by sort_key desc
