-- The state that somebody wants. What made it halt is not counted again, if $3.
select postrider.dlq_command_operation($1, $2, $3)
