create or replace trigger dlq_entry_forgotten after delete on postrider.dlq_entry
referencing old table as removed for each statement execute function postrider.dlq_redrive_forget();
comment on trigger dlq_entry_forgotten on postrider.dlq_entry is 'Redrives stay as long as their investigation.';
