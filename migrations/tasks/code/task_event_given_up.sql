create or replace function postrider.task_event_given_up(p_id bigint, p_sort_key integer) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    e record;
    r record;
begin
    select o.event_id, o.episode, o.task_uuid, o.topic, o.attempts, o.last_error_class, o.last_error_code, o.last_error into e
      from postrider.outbox_event o where o.id = p_id and o.task_uuid is not null and o.state::text = 'exhausted';
    if not found then
        return false;
    end if;
    select u.outcome, u.detail into r
      from postrider.task_event_undelivered(e.task_uuid, e.event_id, e.episode, e.topic, e.attempts, e.last_error_class, e.last_error_code,
                                            e.last_error, p_sort_key) u;
    if r.outcome <> 'moved' then
        perform postrider.task_event_note(p_id, p_sort_key, r.outcome, r.detail);
    end if;
    return r.outcome = 'moved';
end $$;
comment on function postrider.task_event_given_up(bigint, integer) is
'Internal. Moves the task of an outbox event (its id) that was given up, or notes that it was not moved; returns whether it was. p_sort_key as for task_event_undelivered.';
revoke all on function postrider.task_event_given_up(bigint, integer) from public;
