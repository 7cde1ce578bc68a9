select o.dlq_operation_uuid, o.created_at from postrider.dlq_insert_operation($1, $2, $3, $4, $5, $6) o
