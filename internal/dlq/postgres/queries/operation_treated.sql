-- Notes the results of items, and $5 as the outcome of the ones that are done. No other session can change them: the operation is locked. Each is looked up by its key
-- and changed at its place. Statistics of before the operation know of no item of it, and by them it looks cheap to join
-- all with all.
update postrider.dlq_operation_item i set state = w.state, reason = nullif(w.reason, ''), outcome = case when w.state = 'done' then nullif($5::text, '') end
from unnest($2::bigint[], $3::text[], $4::text[]) as w(item, state, reason)
cross join lateral (
    select x.ctid as place from postrider.dlq_operation_item x where x.dlq_operation_uuid = $1 and x.item = w.item limit 1) x
where i.ctid = x.place
