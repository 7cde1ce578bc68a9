-- The operations among $1 all of whose sources are among $2. Each is looked up by its key.
select o.dlq_operation_uuid from postrider.dlq_operation o where o.dlq_operation_uuid = any ($1::uuid[]) and o.sources <@ $2::text[]
