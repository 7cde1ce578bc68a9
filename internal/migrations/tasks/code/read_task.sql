create or replace function postrider.read_task(p_task_uuid uuid) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.archive_on_read(p_task_uuid);
    return postrider.task_snapshot(p_task_uuid, true);
end $$;
comment on function postrider.read_task(uuid) is
'A task with its template, steps and transitions, see task_snapshot; first it is archived if that is due, see archive_on_read. P0002 for an unknown task.';
revoke all on function postrider.read_task(uuid) from public;
