create or replace function postrider.outbox_task_attempts(p_task_uuid uuid) returns integer
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    -- Through a name that need not be there: the tasks' room may be absent.
    if p_task_uuid is null or to_regprocedure('postrider.task_max_attempts(uuid)') is null then
        return null;
    end if;
    return postrider.task_max_attempts(p_task_uuid);
end $$;
comment on function postrider.outbox_task_attempts(uuid) is
'After how many attempts an event of this task is given up: max_retries of the task''s template. Null where the template has none, and where there is no such task. Everybody may call it: v_outbox_event does so with the rights of its reader.';
grant execute on function postrider.outbox_task_attempts(uuid) to public;
