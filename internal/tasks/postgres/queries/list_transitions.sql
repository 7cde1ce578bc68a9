select task_transition_uuid, task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at, null::timestamptz as archived_at
from postrider.tasker_task_transitions
where task_uuid = $1::uuid
order by sort_key
