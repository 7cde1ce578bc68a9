create or replace function postrider.task_event_note(p_id bigint, p_sort_key integer, p_outcome text, p_detail text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
begin
    insert into postrider.tasker_undelivered_events (
        event_id, episode, task_uuid, topic, attempts, error_class, error_code, error_message, sort_key, outcome, detail)
    select o.event_id, o.episode, o.task_uuid, o.topic, o.attempts, o.last_error_class, o.last_error_code, o.last_error, p_sort_key, p_outcome, p_detail
      from postrider.outbox_event o where o.id = p_id and o.task_uuid is not null and o.state::text = 'exhausted'
    on conflict (event_id, episode) do nothing;
end $$;
comment on function postrider.task_event_note(bigint, integer, text, text) is
'Internal. Notes an outbox event (its id) that was given up and did not move its task; one that was noted before, was not given up, or is of no task is passed over.';
revoke all on function postrider.task_event_note(bigint, integer, text, text) from public;
