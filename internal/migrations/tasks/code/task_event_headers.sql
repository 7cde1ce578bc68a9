create or replace function postrider.task_event_headers(p_event_id uuid, p_type text, p_namespace text, p_task_name text, p_task_uuid uuid, p_time timestamptz)
returns jsonb language sql stable parallel safe as $$
    -- Without a search_path of its own, so that it is inlined; so every name is written with its schema.
    select pg_catalog.jsonb_build_array(
        pg_catalog.jsonb_build_array('ce_specversion', '1.0'),
        pg_catalog.jsonb_build_array('ce_id', p_event_id),
        pg_catalog.jsonb_build_array('ce_source', pg_catalog.concat('/postrider/', p_namespace, '/', p_task_name)),
        pg_catalog.jsonb_build_array('ce_type', p_type),
        pg_catalog.jsonb_build_array('ce_subject', p_task_uuid),
        pg_catalog.jsonb_build_array('ce_time', pg_catalog.to_char(pg_catalog.timezone('UTC', p_time), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')),
        pg_catalog.jsonb_build_array('content-type', 'application/json'))
$$;
comment on function postrider.task_event_headers(uuid, text, text, text, uuid, timestamptz) is
'Internal. The headers of an event about a task: the attributes of CloudEvents 1.0 in the binary mode of its Kafka binding.';
revoke all on function postrider.task_event_headers(uuid, text, text, text, uuid, timestamptz) from public;
