-- The columns of get_task. What is archived has ended: in a state of the kind terminal it has completed_at, in one of the kind
-- failed it has not.
select task_uuid, named_task_uuid, namespace_name, task_name, task_version, state,
       case when completed_at is null then 'failed' else 'terminal' end as kind, live, state_entered_at, sort_key, priority, retry_count,
       context, metadata, idempotency_key, error_reason, stale_flagged_at, stay_from, resumed_at, dead_letters, created_at, updated_at, completed_at, final_state, archived_at
from postrider.tasker_tasks_archive
where task_uuid = $1
