update postrider.dlq_operation_item i set state = w.state, reason = nullif(w.reason, '')
from unnest($2::bigint[], $3::text[], $4::text[]) as w(item, state, reason)
where i.dlq_operation_uuid = $1 and i.item = w.item
