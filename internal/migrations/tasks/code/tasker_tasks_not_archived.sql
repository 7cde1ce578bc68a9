create or replace trigger tasker_tasks_not_archived after insert on postrider.tasker_tasks
for each row execute function postrider.tasker_refuse_archived();
comment on trigger tasker_tasks_not_archived on postrider.tasker_tasks is 'A task is either here or in the archive.';
