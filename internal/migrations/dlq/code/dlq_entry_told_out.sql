create or replace trigger dlq_entry_told_out after delete on postrider.dlq_entry
referencing old table as removed for each statement execute function postrider.dlq_tell_tasks();
comment on trigger dlq_entry_told_out on postrider.dlq_entry is 'A task is archived when its investigations are closed, or gone.';
