-- The scope of an operation, in the order in which the messages were written as far as that is known. What is
-- named is in it as it is; a group or a filter selects investigations of status $14 opened until $2.
insert into postrider.dlq_operation_item (dlq_operation_uuid, item, dlq_entry_uuid)
select $1::uuid, row_number() over (order by coalesce(l.origin_topic, ''), coalesce(l.outbox_id, 0), coalesce(l.origin_partition, 0),
                                            coalesce(l.origin_offset, 0), l.dlq_topic, l.dlq_partition, l.dlq_offset, e.dlq_entry_uuid),
       e.dlq_entry_uuid
from postrider.dlq_entry e
left join lateral (
    select l.* from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
    order by coalesce(l.episode, 0) desc, l.recorded_at desc, l.dlq_partition desc, l.dlq_offset desc limit 1) l on true
where case when $3::uuid[] is not null then e.dlq_entry_uuid = any ($3)
           else e.resolution_status = $14::postrider.dlq_resolution_status and e.created_at <= $2::timestamptz
                and ($4::uuid is null or e.dlq_group_uuid = $4)
                and ($5::text = '' or e.dlq_reason = nullif($5::text, '')::postrider.dlq_reason)
                and ($6::text = '' or e.subject_type = $6)
                and ($7::text = '' or e.subject_id = $7)
                and ($8::text = '' or e.topic = $8)
                and ($9::text = '' or e.error_code = $9)
                and ($10::text = '' or e.assignee = $10)
                and ($11::text = '' or e.error_message ilike $11)
                and ($12::timestamptz is null or e.created_at >= $12) and ($13::timestamptz is null or e.created_at <= $13)
      end
