create or replace view postrider.tasker_tasks_dlq as
select e.dlq_entry_uuid, e.task_uuid, e.original_state, e.dlq_reason, e.dlq_timestamp, e.resolution_status, e.resolution_timestamp,
       e.resolution_notes, e.resolved_by, e.snapshot as task_snapshot, e.metadata, e.created_at, e.updated_at
from postrider.dlq_entry e
where e.subject_type = 'task' and e.source = 'main';
comment on view postrider.tasker_tasks_dlq is
'The investigations of tasks of this database, for queries and dashboards: the open ones (where resolution_status = ''pending'' order by dlq_timestamp), the history of a task (where task_uuid = … order by created_at), and what comes often (group by dlq_reason). dlq_entry has the investigations of events and records, too. At most one investigation of a task is pending. Mend the task at its steps: an investigation only tells what happened.';
