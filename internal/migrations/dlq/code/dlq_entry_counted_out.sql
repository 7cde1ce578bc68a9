create or replace trigger dlq_entry_counted_out after delete on postrider.dlq_entry
referencing old table as removed for each statement execute function postrider.dlq_count_entries();
comment on trigger dlq_entry_counted_out on postrider.dlq_entry is 'Counts the investigations that are removed.';
