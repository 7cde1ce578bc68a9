-- The newest letter of each, and what of its message is where.
select e.dlq_entry_uuid, e.subject_type, e.resolution_status::text, e.generation,
       exists (select from postrider.dlq_replay r where r.dlq_entry_uuid = e.dlq_entry_uuid and r.outcome is null),
       l.letter_id, l.event_id, coalesce(l.episode, 0), l.outbox_id, coalesce(l.origin_topic, ''), l.origin_partition, l.origin_offset,
       l.key is not null, l.dlq_topic, l.dlq_partition, l.dlq_offset
from unnest($1::uuid[]) as w(id)
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id
left join lateral (
    select l.* from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
    order by coalesce(l.episode, 0) desc, l.recorded_at desc, l.dlq_partition desc, l.dlq_offset desc limit 1) l on true
