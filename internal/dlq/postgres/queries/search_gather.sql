-- Gathers what a search asks for, at most $19 investigations and in no order: how many there are, and the page of them.
-- $20 are the groups that have them, where that is known.
with gathered as materialized (
    select e.dlq_entry_uuid, e.created_at/*order*/ as at
    from postrider.dlq_entry e
    where ($1::text = '' or e.resolution_status = nullif($1::text, '')::postrider.dlq_resolution_status)
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
       and ($9::text = '' or coalesce(e.error_message, '') || coalesce(' | ' || e.root_cause, '') || coalesce(' | ' || e.root_frame, '') ilike $9)
       and ($10::timestamptz is null or e.created_at >= $10) and ($11::timestamptz is null or e.created_at <= $11)
       and ($20::uuid[] is null or e.dlq_group_uuid = any ($20))
    limit $19
), page as (
    select g.dlq_entry_uuid, g.at from gathered g
    where ($12::timestamptz is null or (g.at, g.dlq_entry_uuid) </*way*/ ($12, $13::uuid))
    order by g.at desc/*way*/, g.dlq_entry_uuid desc/*way*/
    limit $14 offset $15
)
select c.n, c.n, p.dlq_entry_uuid, p.at
from (select count(*) as n from gathered) c
left join page p on true
order by p.at desc/*way*/, p.dlq_entry_uuid desc/*way*/
