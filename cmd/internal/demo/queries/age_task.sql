-- What takes hours elsewhere is seen at once here. Nothing but a demonstration does this.
update postrider.tasker_tasks
set created_at = created_at - interval '2 hours', state_entered_at = state_entered_at - interval '2 hours'
where task_uuid = $1 and live
