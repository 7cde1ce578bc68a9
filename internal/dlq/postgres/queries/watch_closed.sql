-- Investigations in the order of their last change: $5 of them after the place ($1, $2) that changed $4 seconds ago or
-- earlier, and which of them were closed after $3.
select e.updated_at, e.dlq_entry_uuid, e.dlq_reason::text, e.resolution_status::text,
       coalesce(extract(epoch from e.resolution_timestamp - e.created_at), 0)::float8,
       e.resolution_status <> 'pending' and e.resolution_timestamp > $3::timestamptz
from postrider.dlq_entry e
where (e.updated_at, e.dlq_entry_uuid) > ($1::timestamptz, $2::uuid)
  and e.updated_at <= (select clock_timestamp() - make_interval(secs => $4::float8))
order by e.updated_at, e.dlq_entry_uuid
limit $5::int
