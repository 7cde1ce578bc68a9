-- The ids of at most $3 operations from $1 to $2.
select dlq_operation_uuid from postrider.dlq_operation where dlq_operation_uuid between $1 and $2 order by dlq_operation_uuid limit $3
