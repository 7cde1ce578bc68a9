create or replace function postrider.task_event_reason(p_class text, p_code text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    -- As reasonOf reads the event's dead letter.
    select case when p_class = 'record' then 'max_retries_exceeded'
                when p_class = 'permanent' and p_code = 'SKIPPED' then 'manual_dlq'
                when p_class = 'permanent' then 'undeliverable'
                when p_class in ('infrastructure', 'route') then 'staleness_timeout'
                else 'unclassified' end
$$;
comment on function postrider.task_event_reason(text, text) is 'Internal. The dlq_reason that the dead letter of an event has whose last failure was of this class and code.';
revoke all on function postrider.task_event_reason(text, text) from public;
