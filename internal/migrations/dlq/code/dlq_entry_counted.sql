create or replace trigger dlq_entry_counted after update on postrider.dlq_entry
referencing old table as removed new table as added for each statement execute function postrider.dlq_count_entries();
comment on trigger dlq_entry_counted on postrider.dlq_entry is 'Counts the investigations that are changed.';
