delete from postrider.dlq_operation where dlq_operation_uuid = $1
