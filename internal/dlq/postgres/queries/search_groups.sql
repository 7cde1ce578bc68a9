-- A page of the investigations of groups, each with one status: the first of each, by the index of groups,
-- for which reason and type are written so that no other index serves them.
select p.dlq_entry_uuid, p.created_at
from unnest($1::uuid[], $2::postrider.dlq_resolution_status[]) as k (id, status)
cross join lateral (
    select e.dlq_entry_uuid, e.created_at
    from postrider.dlq_entry e
    where e.dlq_group_uuid = k.id and e.resolution_status = k.status
          and ($3::timestamptz is null or (e.created_at at time zone 'UTC') >= ($3 at time zone 'UTC'))
          and ($4::timestamptz is null or (e.created_at at time zone 'UTC') <= ($4 at time zone 'UTC'))
          and ($5::text = '' or e.dlq_reason::text = $5)
          and ($6::text = '' or e.subject_type || '' = $6)
          and ($7::timestamptz is null or (e.created_at at time zone 'UTC', e.dlq_entry_uuid) </*way*/ ($7 at time zone 'UTC', $8::uuid))
    order by (e.created_at at time zone 'UTC') desc/*way*/, e.dlq_entry_uuid desc/*way*/
    limit $9::bigint + $10::bigint) p
order by p.created_at desc/*way*/, p.dlq_entry_uuid desc/*way*/
limit $9 offset $10
