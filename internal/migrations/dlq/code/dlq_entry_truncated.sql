create or replace trigger dlq_entry_truncated after truncate on postrider.dlq_entry
for each statement execute function postrider.dlq_count_nothing();
comment on trigger dlq_entry_truncated on postrider.dlq_entry is 'Counts nothing.';
