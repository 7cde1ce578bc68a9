-- What people know investigations by, in the order given; a row of nulls for one that is gone. A snapshot may have 64 KiB of
-- a key: its beginning is read. The snapshot of a task is the task's own, and has neither key nor event id. Each is looked
-- up by its id, whatever statistics say.
select e.topic, case when jsonb_typeof(e.snapshot -> 'key') = 'string' then left(e.snapshot ->> 'key', $2::int) end,
       left(e.snapshot #>> '{key,base64}', $2::int / 4 * 4), e.snapshot ->> 'event_id', e.task_uuid, e.dlq_reason::text, e.error_code
from unnest($1::uuid[]) with ordinality as w (id, place)
left join lateral (
    select x.topic, case when x.subject_type <> 'task' then x.snapshot end as snapshot, x.task_uuid, x.dlq_reason, x.error_code
    from postrider.dlq_entry x where x.dlq_entry_uuid = w.id limit 1) e on true
order by w.place
