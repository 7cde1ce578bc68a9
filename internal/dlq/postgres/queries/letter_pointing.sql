-- Of each of these investigations, the newest letter if it points to a record whose bytes are not here, otherwise null.
-- With $2, only letters for which asking again may help.
select e.dlq_entry_uuid, e.subject_id, l.letter_id, l.origin_topic, l.origin_partition, l.origin_offset, l.key_kind, l.payload_kind,
       l.payload_bytes, l.headers, l.event_id, l.original_record, l.dlq_topic, l.dlq_partition, l.dlq_offset
from unnest($1::uuid[]) as w(id)
join postrider.dlq_entry e on e.dlq_entry_uuid = w.id
left join lateral (
    select n.* from postrider.dlq_letter n where n.dlq_entry_uuid = e.dlq_entry_uuid
    order by coalesce(n.episode, 0) desc, n.recorded_at desc, n.dlq_partition desc, n.dlq_offset desc limit 1) l
    on e.subject_type = 'record' and l.outbox_id is null and l.origin_topic <> '' and l.origin_partition is not null and l.origin_offset is not null
       and (l.payload_kind = 'reference' or l.key is null and l.payload is null) and l.original_record is distinct from 'fetched'
       and (not $2::boolean or coalesce(l.original_record, 'unanswered') in ('no_leader', 'refused', 'unanswered'))
