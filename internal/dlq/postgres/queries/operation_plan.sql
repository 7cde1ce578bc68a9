-- What an operation would do.
select postrider.dlq_plan_operation($1, $2)
