-- $5 is the outcome of the items that are done. No other session can change these items: their operation is locked. Each is
-- looked up by its key and changed at its place: by statistics that were taken before the operation, which know of no item
-- of it, joining all with all looks cheap.
update postrider.dlq_operation_item i set state = w.state, reason = nullif(w.reason, ''),
    outcome = case when w.state = 'done' then nullif($5::text, '') end
from unnest($2::bigint[], $3::text[], $4::text[]) as w(item, state, reason)
cross join lateral (
    select x.ctid as place from postrider.dlq_operation_item x where x.dlq_operation_uuid = $1 and x.item = w.item limit 1) x
where i.ctid = x.place
