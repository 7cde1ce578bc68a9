-- Gathers, by the index of messages and eras, what a search asks for of a time, at most $19 investigations: how many
-- there are, and the page of them. All other conditions are written so that no other index serves them.
with gathered as materialized (
    select e.dlq_entry_uuid, e.created_at as at
    from postrider.dlq_entry e
    where coalesce(e.error_message, '') || coalesce(' | ' || e.root_cause, '') || coalesce(' | ' || e.root_frame, '') ilike $9
       and (array[floor(extract(epoch from e.created_at at time zone 'UTC') / 64)::bigint * 4,
                  floor(extract(epoch from e.created_at at time zone 'UTC') / 4096)::bigint * 4 + 1,
                  floor(extract(epoch from e.created_at at time zone 'UTC') / 262144)::bigint * 4 + 2]) && $20::bigint[]
       and ($1::text = '' or e.resolution_status::text = $1)
       and ($2::text = '' or e.dlq_reason::text = $2)
       and ($3::text = '' or e.subject_type || '' = $3)
       and ($4::text = '' or e.subject_id || '' = $4)
       and ($5::uuid[] is null or e.dlq_group_uuid::text = any ($5::uuid[]::text[]))
       and ($6::text = '' or e.topic || '' = $6)
       and ($7::text = '' or e.error_code || '' = $7)
       and ($8::text = '' or e.assignee || '' = $8)
       and ($16::text = '' or e.consumer_group || '' = $16)
       and ($17::text = '' or e.dlq_topic || '' = $17)
       and ($18::uuid[] is null or e.dlq_entry_uuid::text = any ($18::uuid[]::text[]))
       and e.created_at + interval '0' >= $10 and e.created_at + interval '0' <= $11
       and ($12::timestamptz is null or (e.created_at + interval '0', e.dlq_entry_uuid) </*way*/ ($12, $13::uuid))
    limit $19
), page as (
    select g.dlq_entry_uuid, g.at from gathered g
    order by g.at desc/*way*/, g.dlq_entry_uuid desc/*way*/
    limit $14 offset $15
)
select c.n, c.n, p.dlq_entry_uuid, p.at
from (select count(*) as n from gathered) c
left join page p on true
order by p.at desc/*way*/, p.dlq_entry_uuid desc/*way*/
