select task_uuid, named_task_uuid, namespace_name, task_name, task_version, state,
       case when completed_at is null then 'failed' else 'terminal' end as kind, live, state_entered_at, sort_key, priority, retry_count,
       context, metadata, idempotency_key, error_reason, stale_flagged_at, stay_from, resumed_at, dead_letters, created_at, updated_at, completed_at, final_state, archived_at
from postrider.tasker_tasks_archive
where (archived_at, task_uuid) < (coalesce($1::timestamptz, 'infinity'), coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
order by archived_at desc, task_uuid desc
limit $3 offset $4
