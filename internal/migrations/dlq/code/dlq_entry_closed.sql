create or replace trigger dlq_entry_closed after update on postrider.dlq_entry
referencing old table as removed new table as added for each statement execute function postrider.dlq_tell_outbox();
comment on trigger dlq_entry_closed on postrider.dlq_entry is 'An event may go when its investigation is closed.';
