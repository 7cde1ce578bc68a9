create or replace function postrider.task_retry_counts(p_task_uuids uuid[]) returns table(task_uuid uuid, retry_count integer)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select t.task_uuid, t.retry_count from postrider.tasker_tasks t where t.task_uuid = any (p_task_uuids)
    union all
    select a.task_uuid, a.retry_count from postrider.tasker_tasks_archive a where a.task_uuid = any (p_task_uuids)
$$;
comment on function postrider.task_retry_counts(uuid[]) is
'Internal. How often tasks were retried as a whole, live and archived ones; unknown tasks are left out.';
revoke all on function postrider.task_retry_counts(uuid[]) from public;
