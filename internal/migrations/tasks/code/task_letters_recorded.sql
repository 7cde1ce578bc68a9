create or replace function postrider.task_letters_recorded(
    p_letter_ids text[], p_event_ids uuid[], p_episodes integer[], p_task_uuids uuid[], p_entry_uuids uuid[], p_pending boolean[])
returns table (entry_uuid uuid, superseded_by text) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
begin
    -- Most letters are of no task, and are passed over.
    insert into postrider.tasker_letter as l (letter_id, task_uuid, entry_uuid, closed_at)
    select w.letter_id, coalesce(k.task_uuid, t.task_uuid, u.task_uuid), w.entry_uuid, case when not w.pending then clock_timestamp() end
    from unnest(p_letter_ids, p_event_ids, p_episodes, p_task_uuids, p_entry_uuids, p_pending)
        as w(letter_id, event_id, episode, task_uuid, entry_uuid, pending)
    left join lateral (
        select k.task_uuid from postrider.tasker_letter k where k.letter_id = w.letter_id limit 1) k on true
    left join lateral (
        select t.task_uuid from postrider.tasker_tasks t where t.task_uuid = w.task_uuid limit 1) t on true
    -- An event of a task that could not be moved yet: its letter counts once it is.
    left join lateral (
        select u.task_uuid from postrider.tasker_undelivered_events u
        where u.event_id = w.event_id and u.episode = w.episode and u.outcome = 'waiting' limit 1) u on true
    where coalesce(k.task_uuid, t.task_uuid, u.task_uuid) is not null
    order by w.letter_id
    on conflict (letter_id) do update set entry_uuid = excluded.entry_uuid, closed_at = excluded.closed_at;
    return query
    select l.entry_uuid, min(l.superseded_by)
    from (select distinct unnest(p_entry_uuids) as id) i
    join postrider.tasker_letter l on l.entry_uuid = i.id
    where l.closed_at is null
    group by l.entry_uuid
    having bool_and(l.superseded_at is not null);
end $$;
comment on function postrider.task_letters_recorded(text[], uuid[], integer[], uuid[], uuid[], boolean[]) is
'For the desk: these dead letters are recorded. Of each its id; the event that it is of, and how many times that had been given up; the task that its investigation is about; the investigation, and whether that is pending. Null is what there is not. Returns the pending ones of these investigations whose task was retried after each of their letters was written, and who retried it.';
revoke all on function postrider.task_letters_recorded(text[], uuid[], integer[], uuid[], uuid[], boolean[]) from public;
