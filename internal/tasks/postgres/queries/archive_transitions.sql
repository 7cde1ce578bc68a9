select task_transition_uuid, task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at, archived_at
from postrider.tasker_task_transitions_archive
where task_uuid = $1
order by sort_key
