-- In plpgsql, which keeps the plan. The setting is paid for by events of tasks alone.
create or replace function postrider.task_max_attempts(p_task_uuid uuid) returns integer
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
    return (select greatest((n.configuration->>'max_retries')::numeric::integer, 1)
              from postrider.tasker_tasks k join postrider.tasker_named_tasks n using (named_task_uuid)
             where k.task_uuid = p_task_uuid and jsonb_typeof(n.configuration->'max_retries') = 'number');
end $$;
comment on function postrider.task_max_attempts(uuid) is
'Internal. After how many attempts an event of this task is given up; null takes the relay''s setting. This is how writing an event asks without knowing the tables of tasks.';
revoke all on function postrider.task_max_attempts(uuid) from public;
