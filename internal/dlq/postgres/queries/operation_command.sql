-- Gives an operation the wanted state. If $3, the dead letters that made it halt are not counted again.
select postrider.dlq_command_operation($1, $2, $3)
