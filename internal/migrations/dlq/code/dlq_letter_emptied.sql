create or replace trigger dlq_letter_emptied before update of dlq_entry_uuid on postrider.dlq_letter
for each row when (old.dlq_entry_uuid is not null and new.dlq_entry_uuid is null) execute function postrider.dlq_empty_letter();
comment on trigger dlq_letter_emptied on postrider.dlq_letter is 'A letter loses its message with its investigation, however that is removed.';
