create or replace trigger dlq_entry_counted_in after insert on postrider.dlq_entry
referencing new table as added for each statement execute function postrider.dlq_count_entries();
comment on trigger dlq_entry_counted_in on postrider.dlq_entry is 'Counts the investigations that are opened.';
