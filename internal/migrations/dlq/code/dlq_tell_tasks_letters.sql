create or replace function postrider.dlq_tell_tasks_letters() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    told record;
    superseded record;
begin
    -- Dead letters of consumers are about no task. Of the dead letters of events, tasks know which are about a task.
    select array_agg(a.letter_id) as letters, array_agg(a.event_id) as events, array_agg(a.episode) as episodes,
           array_agg(case when e.subject_type = 'task' and e.subject_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then e.subject_id::uuid end) as tasks,
           array_agg(a.dlq_entry_uuid) as entries, array_agg(coalesce(e.resolution_status = 'pending', false)) as pending
    into told
    from added a
    left join lateral (
        select e.subject_type, e.subject_id, e.resolution_status from postrider.dlq_entry e
        where e.dlq_entry_uuid = a.dlq_entry_uuid limit 1) e on true
    -- The tasks of other sources are not here, and may have the ids of some that are.
    where a.source = 'main' and (a.letter_id like 'event:%' or a.letter_id like 'task:%' or e.subject_type = 'task');
    if told.letters is not null then
        select array_agg(r.entry_uuid) as entries, array_agg(r.superseded_by) as actors into superseded
        from postrider.task_letters_recorded(told.letters, told.events, told.episodes, told.tasks, told.entries, told.pending) r;
        if superseded.entries is not null then
            perform postrider.dlq_close_superseded(superseded.entries, superseded.actors);
        end if;
    end if;
    return null;
end $$;
comment on function postrider.dlq_tell_tasks_letters() is
'Tells tasks which letters were recorded, and whether their investigations are pending. Tasks pick the letters that are about them, and name the investigations that a retry made needless before they were here: these are closed at once.';
revoke all on function postrider.dlq_tell_tasks_letters() from public;
