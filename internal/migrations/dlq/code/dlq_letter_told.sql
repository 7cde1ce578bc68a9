create or replace trigger dlq_letter_told after insert on postrider.dlq_letter
referencing new table as added for each statement execute function postrider.dlq_tell_tasks_letters();
comment on trigger dlq_letter_told on postrider.dlq_letter is 'A task is not archived before its letters are recorded.';
