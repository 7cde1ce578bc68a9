create or replace function postrider.dlq_ask_release(p_actor text, p_entries uuid[], p_letter_ids text[]) returns setof uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    asked uuid;
    entry uuid;
begin
    if coalesce(cardinality(p_entries), 0) = 0 then
        return;
    end if;
    perform postrider.access_owe('{outbox.release}', 'entry', p_entries::text[]);
    -- A source that is forgotten meanwhile is waited for: it leaves no command behind.
    perform from postrider.dlq_source s
    where s.source = any (array(select l.source from unnest(p_letter_ids) as w(id)
                                cross join lateral (select l.source from postrider.dlq_letter l where l.letter_id = w.id limit 1) l))
    order by s.source for key share;
    -- Which event it is the stored letter says, and not the caller; as in dlq_ask_source.
    for entry, asked in
    with given as materialized (
        select w.place, w.entry, l.source, l.source_outbox_id, l.event_id, l.episode, waiting.command,
               coalesce(e.resolution_status = 'pending' and e.subject_type = 'event' and l.dlq_entry_uuid = w.entry and l.source = e.source
                        and num_nulls(l.source_outbox_id, l.event_id, l.episode) = 0
                        and (select s.forgotten_at from postrider.dlq_source s where s.source = l.source) is null, false) as askable
        from unnest(p_entries, p_letter_ids) with ordinality as w(entry, letter_id, place)
        left join lateral (
            select e.resolution_status, e.subject_type, e.source from postrider.dlq_entry e where e.dlq_entry_uuid = w.entry limit 1) e on true
        left join lateral (
            select l.dlq_entry_uuid, l.source, l.source_outbox_id, l.event_id, l.episode from postrider.dlq_letter l where l.letter_id = w.letter_id limit 1) l on true
        -- Asked again before the source has answered, it is the same command. Its source is that of the investigation. A condition
        -- on it would let the planner read all that the source has not answered.
        left join lateral (
            select c.dlq_command_uuid as command from postrider.dlq_command c
            where c.answered_at is null and c.kind = 'release' and c.dlq_entry_uuid = w.entry and c.event_id = l.event_id and c.episode = l.episode
            limit 1) waiting on true
    ), commanded as (
        insert into postrider.dlq_command (source, kind, dlq_entry_uuid, outbox_id, event_id, episode, actor)
        select g.source, 'release', g.entry, g.source_outbox_id, g.event_id, g.episode, p_actor from given g where g.askable and g.command is null order by g.place
        returning dlq_entry_uuid, dlq_command_uuid
    )
    select g.entry, case when g.askable then coalesce(g.command, c.dlq_command_uuid) end from given g left join commanded c on c.dlq_entry_uuid = g.entry
    loop
        if asked is null then
            raise exception using errcode = '55000', message = format('postrider: no source can be asked to let a key go for investigation %s', coalesce(entry::text, 'null')),
                detail = 'it must be the pending investigation of an event of another source than main, which is not forgotten; the letter must belong to it, and name the event',
                hint = 'postrider dlq release lets keys go.';
        end if;
        return next asked;
    end loop;
end $$;
comment on function postrider.dlq_ask_release(text, uuid[], text[]) is
'Asks sources to let the keys go that the events of investigations halt, each by a letter of it, and returns the commands (dlq_command). A command that waits for its answer is returned again. The investigations stay open. All are asked or none.';
revoke all on function postrider.dlq_ask_release(text, uuid[], text[]) from public;
