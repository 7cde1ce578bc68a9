-- What is archived goes back first: these tasks are nowhere else.
drop trigger tasker_tasks_not_archived on postrider.tasker_tasks;
drop function postrider.tasker_refuse_archived();
insert into postrider.tasker_tasks
    (task_uuid, named_task_uuid, state, live, state_entered_at, sort_key, context, priority, retry_count, idempotency_key,
     error_reason, metadata, stale_flagged_at, dead_letters, resumed_at, created_at, updated_at, completed_at)
select task_uuid, named_task_uuid, state, live, state_entered_at, sort_key, context, priority, retry_count, idempotency_key,
       error_reason, metadata, stale_flagged_at, dead_letters, resumed_at, created_at, updated_at, completed_at
from postrider.tasker_tasks_archive;
insert into postrider.tasker_task_transitions
    (task_transition_uuid, task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at)
select task_transition_uuid, task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at
from postrider.tasker_task_transitions_archive;
insert into postrider.tasker_workflow_steps
    (workflow_step_uuid, task_uuid, step_name, handler_name, position, dependencies, status, retry_count, max_retries,
     retry_base_seconds, retry_max_seconds, next_retry_at, inputs, results, last_error, state_entered_at, created_at, updated_at)
select workflow_step_uuid, task_uuid, step_name, handler_name, position, dependencies, status, retry_count, max_retries,
       retry_base_seconds, retry_max_seconds, next_retry_at, inputs, results, last_error, state_entered_at, created_at, updated_at
from postrider.tasker_workflow_steps_archive;
insert into postrider.tasker_workflow_step_transitions
    (step_transition_uuid, task_uuid, workflow_step_uuid, from_status, to_status, metadata, created_at)
select step_transition_uuid, task_uuid, workflow_step_uuid, from_status, to_status, metadata, created_at
from postrider.tasker_workflow_step_transitions_archive;
drop view postrider.v_archive_statistics;
drop view postrider.tasker_all_tasks;
drop function postrider.archive_completed_tasks(integer, integer, boolean, boolean, boolean, boolean, boolean, timestamptz, uuid);
drop function postrider.dlq_task_closed(uuid, text[]);
drop table postrider.tasker_archive_statistics;
drop table postrider.tasker_workflow_step_transitions_archive;
drop table postrider.tasker_task_transitions_archive;
drop table postrider.tasker_workflow_steps_archive;
drop table postrider.tasker_tasks_archive;
