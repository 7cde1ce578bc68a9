create or replace view postrider.tasker_all_tasks as
select t.task_uuid, s.name as namespace_name, n.name as task_name, n.version as task_version, t.named_task_uuid, t.state, t.live, t.state_entered_at,
       t.sort_key, t.context, t.priority, t.retry_count, t.idempotency_key, t.error_reason, t.metadata, t.stale_flagged_at, t.dead_letters,
       t.created_at, t.updated_at, t.completed_at, false as archived, null::timestamptz as archived_at, null::text as final_state
from postrider.tasker_tasks t
join postrider.tasker_named_tasks n on n.named_task_uuid = t.named_task_uuid
join postrider.tasker_task_namespaces s on s.task_namespace_uuid = n.task_namespace_uuid
union all
select a.task_uuid, a.namespace_name, a.task_name, a.task_version, a.named_task_uuid, a.state, a.live, a.state_entered_at,
       a.sort_key, a.context, a.priority, a.retry_count, a.idempotency_key, a.error_reason, a.metadata, a.stale_flagged_at, a.dead_letters,
       a.created_at, a.updated_at, a.completed_at, true, a.archived_at, a.final_state
from postrider.tasker_tasks_archive a;
comment on view postrider.tasker_all_tasks is 'All tasks, live and archived, with their names. archived says where a task is; final_state and archived_at are null for live ones.';
