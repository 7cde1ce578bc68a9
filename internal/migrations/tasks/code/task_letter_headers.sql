create or replace function postrider.task_letter_headers(p_event_id uuid, p_letter_id text, p_namespace text, p_task_name text, p_task_uuid uuid, p_time timestamptz)
returns jsonb language sql stable parallel safe as $$
    -- The id of the letter is in its payload as well. That is left out where it is too large for the topic.
    select postrider.task_event_headers(p_event_id, 'postrider.task.dead_lettered.v1', p_namespace, p_task_name, p_task_uuid, p_time)
           operator(pg_catalog.||) pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_array('ce_letterid', p_letter_id))
$$;
comment on function postrider.task_letter_headers(uuid, text, text, text, uuid, timestamptz) is
'Internal. The headers of a task''s dead letter: the ones that every event about a task has, and the id of the letter, an extension attribute of CloudEvents.';
revoke all on function postrider.task_letter_headers(uuid, text, text, text, uuid, timestamptz) from public;
