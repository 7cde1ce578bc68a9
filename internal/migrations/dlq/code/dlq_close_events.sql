create or replace function postrider.dlq_close_events(p_entries uuid[], p_removed uuid default null) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    told record;
begin
    -- Two transactions that close two investigations of one event at the same time would each find the other's pending. The
    -- second one waits here, and then sees the first closed. A bulk change takes no locks: the lock table is small.
    if p_removed is null and cardinality(p_entries) <= 100 then
        perform pg_advisory_xact_lock(hashtextextended('postrider close ' || k.event_id, 0))
        from (select distinct l.event_id from unnest(p_entries) as w(id)
              cross join lateral (select l.event_id from postrider.dlq_letter l where l.dlq_entry_uuid = w.id offset 0) l
              where l.event_id is not null order by 1) k;
    end if;
    with about as materialized (
        select distinct l.outbox_id, l.event_id, l.episode
        from unnest(p_entries) as w(id)
        cross join lateral (
            select l.letter_id, l.outbox_id, l.event_id, l.episode from postrider.dlq_letter l where l.dlq_entry_uuid = w.id offset 0) l
        -- Of ours alone.
        where (l.letter_id like 'event:%' or l.letter_id like 'task:%') and num_nulls(l.outbox_id, l.event_id, l.episode) = 0
    ), needed as materialized (
        select a.event_id from about a
        cross join lateral (
            select true from postrider.dlq_entry e
            where e.subject_type = 'event' and e.subject_id = a.event_id::text and e.resolution_status = 'pending'
                and e.dlq_entry_uuid is distinct from p_removed
            limit 1) e
        union all
        select a.event_id from about a
        cross join lateral (
            select l.dlq_entry_uuid from postrider.dlq_letter l where l.letter_id = 'event:' || a.event_id || ':' || a.episode
            union all
            select l.dlq_entry_uuid from postrider.dlq_letter l where l.event_id = a.event_id and l.episode = a.episode
                and l.letter_id like 'task:%') l
        cross join lateral (
            select true from postrider.dlq_entry e
            where e.dlq_entry_uuid = l.dlq_entry_uuid and e.resolution_status::text = 'pending' and e.dlq_entry_uuid is distinct from p_removed
            limit 1) e
    )
    select array_agg(a.outbox_id) as ids, array_agg(a.event_id) as events, array_agg(a.episode) as episodes into told
    from about a where a.event_id not in (select n.event_id from needed n);
    if told.ids is not null then
        perform postrider.outbox_close(told.ids, told.events, told.episodes);
    end if;
    -- Events of other sources are closed there, by a command: where the event is, and whether it has moved on, that database alone
    -- knows. Of the letters of one event the newest counts.
    insert into postrider.dlq_command (source, kind, dlq_entry_uuid, outbox_id, event_id, episode, actor)
    select distinct on (l.source, l.source_outbox_id, l.event_id) l.source, 'close', w.id, l.source_outbox_id, l.event_id, l.episode,
           coalesce((select e.resolved_by from postrider.dlq_entry e where e.dlq_entry_uuid = w.id and e.dlq_entry_uuid is distinct from p_removed), 'postrider')
    from unnest(p_entries) as w(id)
    cross join lateral (
        select l.source, l.source_outbox_id, l.event_id, l.episode from postrider.dlq_letter l where l.dlq_entry_uuid = w.id offset 0) l
    where l.source <> 'main' and num_nulls(l.source_outbox_id, l.event_id, l.episode) = 0
      and (select s.forgotten_at from postrider.dlq_source s where s.source = l.source) is null
      and (select true from postrider.dlq_entry e
           where e.subject_type = 'event' and e.subject_id = l.source || '/' || l.event_id and e.resolution_status = 'pending'
             and e.dlq_entry_uuid is distinct from p_removed limit 1) is null
    order by l.source, l.source_outbox_id, l.event_id, l.episode desc;
end $$;
comment on function postrider.dlq_close_events(uuid[], uuid) is
'Internal. Tells the outbox which events have no dead letter in work any more: the events of the letters of these investigations, if no other investigation of the event is pending. To other sources this is a command (dlq_command). p_removed is a pending investigation that is about to be removed.';
revoke all on function postrider.dlq_close_events(uuid[], uuid) from public;
