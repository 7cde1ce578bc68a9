create or replace trigger dlq_entry_owes before update on postrider.dlq_entry
for each statement execute function postrider.access_owe_change();
comment on trigger dlq_entry_owes on postrider.dlq_entry is 'Operators lock investigations, which takes the right to change a column: who uses it for that is in the audit log.';
