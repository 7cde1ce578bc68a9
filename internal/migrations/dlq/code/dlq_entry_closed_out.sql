-- Before it goes, because its letters do not name it any more after.
create or replace trigger dlq_entry_closed_out before delete on postrider.dlq_entry
for each row when (old.resolution_status = 'pending') execute function postrider.dlq_tell_outbox();
comment on trigger dlq_entry_closed_out on postrider.dlq_entry is 'An event may go when its investigation is gone.';
