create or replace function postrider.dlq_note_redrives(
    p_operation uuid, p_actor text, p_entries uuid[], p_letter_ids text[], p_outbox_ids bigint[], p_event_ids uuid[],
    p_in_place boolean[], p_episodes integer[], p_targets text[], p_edited boolean[])
returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    wrong bigint;
    named uuid;
begin
    if coalesce(cardinality(p_entries), 0) = 0 then
        return;
    end if;
    perform postrider.access_owe('{dlq.requeue}', 'entry', p_entries::text[]);
    -- Each thing is looked up by its key, as dlq_redrive_letters does. A new event says itself which redrive it is.
    with given as materialized (
        select w.*, n.generation, n.redrive_id,
               coalesce(e.resolution_status = 'pending' and l.dlq_entry_uuid = w.entry
                        and (r.generation is null or r.outcome = 'delivered'
                             or r.outcome = 'came_back' and (select true from postrider.dlq_letter b
                                   where b.letter_id = 'event:' || r.event_id || ':' || (r.episode + 1) limit 1))
                        and case when w.in_place then l.outbox_id = w.outbox_id and l.event_id = w.event_id
                                      and (select true from postrider.outbox_returning(w.outbox_id, w.event_id))
                                 else (select c.headers from postrider.outbox_content(w.outbox_id, w.event_id) c)
                                      @> jsonb_build_array(jsonb_build_array('replay_id', n.redrive_id)) end, false) as sent
        from unnest(p_entries, p_letter_ids, p_outbox_ids, p_event_ids, p_in_place, p_episodes, p_targets, p_edited)
            as w(entry, letter_id, outbox_id, event_id, in_place, episode, target, edited)
        left join lateral (
            select e.resolution_status from postrider.dlq_entry e where e.dlq_entry_uuid = w.entry limit 1) e on true
        left join lateral (
            select r.generation, r.outcome, r.event_id, r.episode
            from postrider.dlq_redrive r where r.dlq_entry_uuid = w.entry order by r.generation desc limit 1) r on true
        left join lateral (
            select l.dlq_entry_uuid, l.outbox_id, l.event_id from postrider.dlq_letter l where l.letter_id = w.letter_id limit 1) l on true
        cross join lateral (
            select coalesce(r.generation, 0) + 1 as generation, w.entry::text || ':' || (coalesce(r.generation, 0) + 1) as redrive_id) n
    ), noted as (
        insert into postrider.dlq_redrive (redrive_id, dlq_entry_uuid, generation, dlq_operation_uuid, letter_id, outbox_id, event_id,
                                          in_place, episode, target, edited, actor)
        select g.redrive_id, g.entry, g.generation, p_operation, g.letter_id, g.outbox_id, g.event_id, g.in_place, g.episode, g.target,
            g.edited, p_actor
        from given g where g.sent
    )
    select count(*), (array_agg(g.entry))[1] into wrong, named from given g where not g.sent;
    if wrong > 0 then
        raise exception using errcode = '55000', message = format('postrider: no redrive of investigation %s can be noted',
            coalesce(named::text, 'null')),
            detail = 'the investigation must be pending and have no redrive on its way; the event must be one that dlq_redrive_letters wrote for it, or one that this transaction redrove in its place',
            hint = 'postrider dlq requeue sends messages again, and notes it.';
    end if;
end $$;
comment on function postrider.dlq_note_redrives(uuid, text, uuid[], text[], bigint[], uuid[], boolean[], integer[], text[], boolean[]) is
'Notes redrives. For each: its investigation, letter, event (id and event id), whether the event was redriven in its place, how often it had been given up, its topic and whether the message was changed. For all: the operation, if one made them, and who asked. Each is the next generation of its investigation. All are noted or none: the investigation must be pending, with no redrive on its way; the letter must belong to it; and the event must be the one that dlq_redrive_letters wrote for it, or the letter''s own, redriven in its place in this transaction.';
revoke all on function postrider.dlq_note_redrives(uuid, text, uuid[], text[], bigint[], uuid[], boolean[], integer[], text[], boolean[]) from public;
