create or replace view postrider.v_archive_statistics as
select s.month, sum(s.tasks)::bigint as tasks_archived,
       pg_size_pretty(z.bytes) as archive_size, z.bytes as archive_bytes,
       sum(s.steps)::bigint as steps_archived, sum(s.transitions)::bigint as transitions_archived,
       coalesce(sum(s.tasks) filter (where s.final_state = 'complete'), 0)::bigint as complete,
       coalesce(sum(s.tasks) filter (where s.final_state = 'error'), 0)::bigint as error,
       coalesce(sum(s.tasks) filter (where s.final_state = 'cancelled'), 0)::bigint as cancelled,
       coalesce(sum(s.tasks) filter (where s.final_state = 'dlq_resolved'), 0)::bigint as dlq_resolved,
       max(s.last_archived_at) as last_archived_at
from postrider.tasker_archive_statistics s
cross join (select sum(pg_total_relation_size(r))::bigint as bytes
            from unnest('{postrider.tasker_tasks_archive, postrider.tasker_workflow_steps_archive, postrider.tasker_task_transitions_archive,
                          postrider.tasker_workflow_step_transitions_archive}'::regclass[]) r) z
group by s.month, z.bytes
order by s.month desc;
comment on view postrider.v_archive_statistics is
'How much is in the archive by the month (UTC) in which tasks were created, and by final_state. archive_size and archive_bytes are of the whole archive, its indexes included. Counted as tasks are moved, so always exact.';
