create or replace trigger dlq_entry_told after update on postrider.dlq_entry
referencing old table as removed new table as added for each statement execute function postrider.dlq_tell_tasks();
comment on trigger dlq_entry_told on postrider.dlq_entry is 'A task is archived when its investigations are closed.';
