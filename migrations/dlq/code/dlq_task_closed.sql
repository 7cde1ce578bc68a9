create or replace function postrider.dlq_task_closed(task_uuid uuid, letter_ids text[]) returns boolean
language sql stable parallel safe set search_path = pg_catalog, pg_temp as $$
    select not exists (select from unnest(dlq_task_closed.letter_ids) i(letter_id)
                       where not exists (select from postrider.dlq_letter l where l.letter_id = i.letter_id))
       and not exists (select from postrider.dlq_entry e
                       where e.subject_type = 'task' and e.subject_id = dlq_task_closed.task_uuid::text
                         and e.resolution_status = 'pending')
       -- One letter after the other, each by its id, whatever the statistics say of pending investigations.
       and not exists (select from unnest(dlq_task_closed.letter_ids) i(letter_id)
                       where (select e.resolution_status from postrider.dlq_letter l
                                join postrider.dlq_entry e on e.dlq_entry_uuid = l.dlq_entry_uuid
                               where l.letter_id = i.letter_id) = 'pending')
$$;
comment on function postrider.dlq_task_closed(uuid, text[]) is
'Whether nobody needs a task any more because of its dead letters, those of its events among them: each of these is recorded, and neither its investigation nor another of the task is pending. False when in doubt. This is how the archiver asks without knowing the tables of investigations.';
revoke all on function postrider.dlq_task_closed(uuid, text[]) from public;
