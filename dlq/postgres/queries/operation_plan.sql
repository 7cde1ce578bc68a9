-- What an operation would do, and how many of those named are not there.
with scope as (
    select e.*, l.key, l.dialect, l.headers, l.payload_bytes, l.outbox_id, coalesce(l.origin_topic, e.topic, '') as origin,
           exists (select from postrider.dlq_replay r where r.dlq_entry_uuid = e.dlq_entry_uuid) as redriven
    from postrider.dlq_operation_item i
    join postrider.dlq_entry e on e.dlq_entry_uuid = i.dlq_entry_uuid
    left join lateral (
        select l.* from postrider.dlq_letter l where l.dlq_entry_uuid = e.dlq_entry_uuid
        order by coalesce(l.episode, 0) desc, l.recorded_at desc limit 1) l on true
    where i.dlq_operation_uuid = $1
), counted as (
    select count(*) as items, coalesce(sum(payload_bytes), 0)::bigint as bytes,
           count(distinct (origin, key)) filter (where key is not null) as keys,
           count(*) filter (where redriven) as redriven, count(*) filter (where subject_type = 'task') as tasks,
           count(*) filter (where dialect = 'postrider' and jsonb_path_exists(headers, 'strict $[*] ? (@[0] == "postrider-invalid-headers")')) as unreadable
    from scope
), topics as (
    select coalesce(jsonb_object_agg(origin, n), '{}') as topics from (select origin, count(*) as n from scope group by origin) t
)
update postrider.dlq_operation p
set items = c.items,
    plan = jsonb_build_object('items', c.items, 'bytes', c.bytes, 'keys', c.keys, 'redriven', c.redriven, 'tasks', c.tasks,
                              'topics', t.topics, 'halting', $2::bigint, 'unreadable_headers', c.unreadable)
from counted c, topics t where p.dlq_operation_uuid = $1
