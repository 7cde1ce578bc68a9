create or replace trigger dlq_replay_begun after insert on postrider.dlq_replay
referencing new table as added for each statement execute function postrider.dlq_group_redriven();
comment on trigger dlq_replay_begun on postrider.dlq_replay is 'Somebody acted on the groups of what is redriven.';
