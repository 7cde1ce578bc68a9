-- A task was found to be stale in the state to which its transition $2 led, if it is still there.
update task_state set stale_since = coalesce(stale_since, $3) where task_uuid = $1 and sort_key = $2
