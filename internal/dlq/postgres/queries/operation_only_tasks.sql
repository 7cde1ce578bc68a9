-- Whether a plan is about tasks and nothing else.
select (plan->>'tasks')::bigint = (plan->>'items')::bigint from postrider.dlq_operation where dlq_operation_uuid = $1
