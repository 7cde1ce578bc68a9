-- The investigation of a task, or of an event of it: the newest that is pending, else the newest.
select e.dlq_entry_uuid from postrider.dlq_entry e
where e.task_uuid = $1::uuid
order by (e.resolution_status::text = 'pending') desc, e.created_at desc, e.dlq_entry_uuid desc limit 1
