create or replace function postrider.dlq_ask_source(
    p_operation uuid, p_actor text, p_entries uuid[], p_letter_ids text[], p_event_ids uuid[], p_targets text[], p_edited boolean[], p_requests jsonb[])
returns table (entry uuid, command uuid) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
begin
    if coalesce(cardinality(p_entries), 0) = 0 then
        return;
    end if;
    perform postrider.access_owe('{dlq.requeue}', 'entry', p_entries::text[]);
    -- A source that is forgotten meanwhile is waited for: it leaves no command behind.
    perform from postrider.dlq_source s
    where s.source = any (array(select l.source from unnest(p_letter_ids) as w(id)
                                cross join lateral (select l.source from postrider.dlq_letter l where l.letter_id = w.id limit 1) l))
    order by s.source for key share;
    -- Each thing is looked up by its key, as dlq_redrive_letters does. Which event it is the stored letter says, and not the caller.
    for entry, command in
    with given as materialized (
        select w.*, n.generation, n.redrive_id, l.source, l.source_outbox_id, l.old_event, l.episode, l.payload_kind, l.key_kind, l.invalid,
               coalesce(e.resolution_status = 'pending' and e.subject_type = 'event' and l.dlq_entry_uuid = w.entry and l.source = e.source
                        and num_nulls(l.source_outbox_id, l.old_event, l.episode) = 0
                        and (select s.forgotten_at from postrider.dlq_source s where s.source = l.source) is null
                        and (r.generation is null or r.outcome in ('delivered', 'unknown')
                             or r.outcome = 'came_back' and (select true from postrider.dlq_letter b
                                   where b.letter_id = case r.source when 'main' then '' else r.source || '/' end
                                       || 'event:' || r.event_id || ':' || (r.episode + 1) limit 1)), false) as askable
        from unnest(p_entries, p_letter_ids, p_event_ids, p_targets, p_edited, p_requests) with ordinality
            as w(entry, letter_id, event_id, target, edited, request, place)
        left join lateral (
            select e.resolution_status, e.subject_type, e.source from postrider.dlq_entry e where e.dlq_entry_uuid = w.entry limit 1) e on true
        left join lateral (
            select r.generation, r.outcome, r.event_id, r.episode, r.source
            from postrider.dlq_redrive r where r.dlq_entry_uuid = w.entry order by r.generation desc limit 1) r on true
        left join lateral (
            select l.dlq_entry_uuid, l.source, l.source_outbox_id, l.event_id as old_event, l.episode, l.payload_kind, l.key_kind,
                   (select h.pair->>1 from jsonb_array_elements(l.headers) h(pair) where h.pair->>0 = 'postrider-invalid-headers' limit 1) as invalid
            from postrider.dlq_letter l where l.letter_id = w.letter_id limit 1) l on true
        cross join lateral (
            select coalesce(r.generation, 0) + 1 as generation, w.entry::text || ':' || (coalesce(r.generation, 0) + 1) as redrive_id) n
    ), noted as (
        insert into postrider.dlq_redrive (redrive_id, dlq_entry_uuid, generation, dlq_operation_uuid, letter_id, outbox_id, event_id,
                                           target, edited, actor, source)
        select g.redrive_id, g.entry, g.generation, p_operation, g.letter_id, 0, g.event_id, g.target, g.edited, p_actor, g.source
        from given g where g.askable
    ), commanded as (
        insert into postrider.dlq_command (source, kind, dlq_entry_uuid, redrive_id, outbox_id, event_id, episode, request, actor)
        select g.source, 'redrive', g.entry, g.redrive_id, g.source_outbox_id, g.old_event, g.episode,
               g.request || jsonb_strip_nulls(jsonb_build_object('target', g.target, 'new_event', g.event_id, 'redrive', g.redrive_id,
                   'payload_left_out', g.payload_kind = 'reference', 'headers_left_out', g.key_kind = 'reference', 'unreadable_headers', g.invalid)),
               p_actor
        from given g where g.askable order by g.place
        returning dlq_entry_uuid, dlq_command_uuid
    )
    select g.entry, c.dlq_command_uuid from given g left join commanded c on c.dlq_entry_uuid = g.entry
    loop
        if command is null then
            raise exception using errcode = '55000', message = format('postrider: no source can be asked to redrive investigation %s', coalesce(entry::text, 'null')),
                detail = 'it must be the pending investigation of an event of another source than main, which is not forgotten, and have no redrive on its way; the letter must belong to it, and name the event',
                hint = 'postrider dlq requeue sends messages again.';
        end if;
        return next;
    end loop;
end $$;
comment on function postrider.dlq_ask_source(uuid, text, uuid[], text[], uuid[], text[], boolean[], jsonb[]) is
'Asks sources to send events again: notes a redrive of each investigation, which is on its way from now on, and a command (dlq_command), and returns the commands. For each: its investigation, letter, the id of a new event if one is needed, topic, whether the message is changed, and the rest of the request (max_hops, traceparent, payload in base64 and headers where they are changed). For all: the operation, if one asks, and who asks. All are asked or none: the investigation must be pending, with no redrive on its way; its newest letter must be that of an event of another source.';
revoke all on function postrider.dlq_ask_source(uuid, text, uuid[], text[], uuid[], text[], boolean[], jsonb[]) from public;
