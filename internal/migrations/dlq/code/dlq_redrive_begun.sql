create or replace trigger dlq_redrive_begun after insert on postrider.dlq_redrive
referencing new table as added for each statement execute function postrider.dlq_group_redriven();
comment on trigger dlq_redrive_begun on postrider.dlq_redrive is 'A redrive counts as an act on the group of its investigation.';
