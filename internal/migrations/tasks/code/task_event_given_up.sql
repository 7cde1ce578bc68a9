create or replace function postrider.task_event_given_up(p_event jsonb, p_sort_key integer) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    r record;
begin
    select u.outcome, u.detail into r
      from jsonb_to_record(p_event) as e(event_id uuid, episode integer, task_uuid uuid, topic text, attempts integer,
                                         error_class text, error_code text, error_message text)
     cross join lateral postrider.task_event_undelivered(e.task_uuid, e.event_id, e.episode, e.topic, e.attempts, e.error_class, e.error_code,
                                                         e.error_message, p_sort_key) u;
    if r.outcome <> 'moved' then
        perform postrider.task_event_note(p_event, p_sort_key, r.outcome, r.detail);
    end if;
    return r.outcome = 'moved';
end $$;
comment on function postrider.task_event_given_up(jsonb, integer) is
'Internal. Moves the task of an event (as task_events_dead_lettered takes it) that was given up, or notes that it was not moved; returns whether it was. p_sort_key as for task_event_undelivered.';
revoke all on function postrider.task_event_given_up(jsonb, integer) from public;
