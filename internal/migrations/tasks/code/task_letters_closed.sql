create or replace function postrider.task_letters_closed(p_task_uuid uuid, p_letter_ids text[]) returns boolean
language sql stable parallel safe set search_path = pg_catalog, pg_temp as $$
    select not exists (select from unnest(p_letter_ids) i(letter_id)
                       where (select l.closed_at from postrider.tasker_letter l where l.letter_id = i.letter_id) is null)
       and not exists (select from postrider.tasker_letter l where l.task_uuid = p_task_uuid and l.closed_at is null)
$$;
comment on function postrider.task_letters_closed(uuid, text[]) is
'Internal. True if the dead letters of a task, and of its events, no longer need it: each is recorded, and neither its investigation nor another one of the task is pending. False when in doubt.';
revoke all on function postrider.task_letters_closed(uuid, text[]) from public;
