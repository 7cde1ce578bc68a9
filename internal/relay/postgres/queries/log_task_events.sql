insert into postrider.outbox_task_event (task_uuid, id) select t.task_uuid, t.id from unnest($1::uuid[], $2::bigint[]) as t(task_uuid,
    id) on conflict do nothing
