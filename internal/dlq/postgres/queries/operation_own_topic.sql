-- How many investigations of an operation have their newest letter in the topic $2, and one of them.
select count(*), (array_agg(e.dlq_entry_uuid order by i.item))[1]
from postrider.dlq_operation_item i
join postrider.dlq_entry e on e.dlq_entry_uuid = i.dlq_entry_uuid
join lateral (
    select l.dlq_topic from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
    order by coalesce(l.episode, 0) desc, l.recorded_at desc, l.dlq_partition desc, l.dlq_offset desc limit 1) l on l.dlq_topic = $2
where i.dlq_operation_uuid = $1
having count(*) > 0
