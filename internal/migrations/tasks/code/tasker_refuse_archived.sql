-- After the insert and not before: the insert waits for an archiver that is just moving the task with this
-- uuid, and only then is the archive's side of that move to be seen.
create or replace function postrider.tasker_refuse_archived() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from postrider.tasker_tasks_archive a where a.task_uuid = new.task_uuid) then
        raise exception using errcode = '23505', message = format('postrider: task %s exists already, in the archive', new.task_uuid),
            hint = 'Give each task a uuid of its own, or none.';
    end if;
    return null;
end $$;
comment on function postrider.tasker_refuse_archived() is 'Refuses a new task whose uuid an archived task has.';
revoke all on function postrider.tasker_refuse_archived() from public;
