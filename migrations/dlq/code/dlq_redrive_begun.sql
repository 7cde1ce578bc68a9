create or replace trigger dlq_redrive_begun after insert on postrider.dlq_redrive
referencing new table as added for each statement execute function postrider.dlq_group_redriven();
comment on trigger dlq_redrive_begun on postrider.dlq_redrive is 'Somebody acted on the groups of what is redriven.';
