create or replace function postrider.task_letter_payload(p_body jsonb, p_limit integer) returns bytea
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case when octet_length(s.payload) <= p_limit then s.payload
                else convert_to((p_body || jsonb_build_object('metadata', null, 'snapshot',
                         postrider.task_snapshot_cut(p_body->'snapshot', true, p_body->'metadata')))::text, 'UTF8') end
    from (select convert_to((p_body || jsonb_build_object('snapshot',
                     postrider.task_snapshot_cut(p_body->'snapshot', false, p_body->'metadata')))::text, 'UTF8') as payload
          offset 0) s
$$;
comment on function postrider.task_letter_payload(jsonb, integer) is
'Internal. The payload of a task''s dead letter that is larger than p_limit bytes, made smaller: without context, inputs and results, or with what identifies the task alone, and then without metadata of its own, too.';
revoke all on function postrider.task_letter_payload(jsonb, integer) from public;
