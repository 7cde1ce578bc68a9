create or replace function postrider.task_event_note(p_event jsonb, p_sort_key integer, p_outcome text, p_detail text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
begin
    insert into postrider.tasker_undelivered_events (
        event_id, episode, task_uuid, topic, attempts, error_class, error_code, error_message, sort_key, outcome, detail)
    select e.event_id, e.episode, e.task_uuid, e.topic, e.attempts, e.error_class, e.error_code, e.error_message, p_sort_key, p_outcome, p_detail
      from jsonb_to_record(p_event) as e(event_id uuid, episode integer, task_uuid uuid, topic text, attempts integer,
                                         error_class text, error_code text, error_message text)
    on conflict (event_id, episode) do nothing;
end $$;
comment on function postrider.task_event_note(jsonb, integer, text, text) is
'Internal. Notes an event (as task_events_dead_lettered takes it) that was given up and did not move its task; one that was noted before is passed over.';
revoke all on function postrider.task_event_note(jsonb, integer, text, text) from public;
