create or replace function postrider.task_done_statuses(p_task_uuid uuid) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case when n.configuration->>'cancelled_steps' = 'skip' then '{complete,resolved_manually,cancelled}' else '{complete,resolved_manually}' end::text[]
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
     where k.task_uuid = p_task_uuid
$$;
comment on function postrider.task_done_statuses(uuid) is
'Internal. The statuses in which a step of this task lets the steps go on that depend on it: where the template''s cancelled_steps is skip, a cancelled step too.';
revoke all on function postrider.task_done_statuses(uuid) from public;
