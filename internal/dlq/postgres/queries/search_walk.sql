-- Looks at the first investigations of an order, at most $19 of them, and picks the ones that fit a search. Returns how
-- many were looked at, how many of them fit, and a page of the fitting ones.
with walked as materialized (
    select e.dlq_entry_uuid, e.created_at/*order*/ as at,
       ((($1::text = '' or e.resolution_status = nullif($1::text, '')::postrider.dlq_resolution_status)
       and ($2::text = '' or e.dlq_reason = nullif($2::text, '')::postrider.dlq_reason)
       and ($3::text = '' or e.subject_type = $3)
       and ($4::text = '' or e.subject_id = $4)
       and ($5::uuid[] is null or e.dlq_group_uuid = any ($5))
       and ($6::text = '' or e.topic = $6)
       and ($7::text = '' or e.error_code = $7)
       and ($8::text = '' or e.assignee = $8)
       and ($16::text = '' or e.consumer_group = $16)
       and ($17::text = '' or e.dlq_topic = $17)
       and ($18::uuid[] is null or e.dlq_entry_uuid = any ($18))
       and ($9::text = '' or coalesce(e.error_message, '') || coalesce(' | ' || e.root_cause, '') || coalesce(' | ' || e.root_frame,
           '') ilike $9)) is true) as fits
    from postrider.dlq_entry e
    where ($10::timestamptz is null or e.created_at >= $10) and ($11::timestamptz is null or e.created_at <= $11)
      and ($12::timestamptz is null or (e.created_at/*order*/, e.dlq_entry_uuid) </*way*/ ($12, $13::uuid))
    order by e.created_at/*order*/ desc/*way*/, e.dlq_entry_uuid desc/*way*/
    limit $19
), page as (
    select w.dlq_entry_uuid, w.at from walked w where w.fits
    order by w.at desc/*way*/, w.dlq_entry_uuid desc/*way*/
    limit $14 offset $15
)
select c.looked, c.fitting, p.dlq_entry_uuid, p.at
from (select count(*) as looked, count(*) filter (where w.fits) as fitting from walked w) c
left join page p on true
order by p.at desc/*way*/, p.dlq_entry_uuid desc/*way*/
