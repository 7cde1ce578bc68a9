-- Notes the outcomes of items whose redrives ended. No other session can change these items: their operations are locked.
-- Each is looked up by its index and changed at its place, as in operation_treated.
update postrider.dlq_operation_item i set outcome = w.outcome
from unnest($1::uuid[], $2::uuid[], $3::text[]) as w(operation, entry, outcome)
cross join lateral (
    select x.ctid as place from postrider.dlq_operation_item x where x.dlq_operation_uuid = w.operation and x.dlq_entry_uuid = w.entry limit 1) x
where i.ctid = x.place
