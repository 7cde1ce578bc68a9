create or replace function postrider.dlq_rejoin_source(p_source text, p_uuid uuid, p_heard bigint, p_receipt bigint, p_undone uuid[], p_acts jsonb,
    out redrives bigint, out again bigint, out noted bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    a record;
    v_lost record;
    v_entry uuid;
    v_generation integer;
begin
    perform postrider.access_owe('{source.rejoin}', 'source', array[p_source]);
    insert into postrider.dlq_source (source) values (p_source) on conflict do nothing;
    -- An answer of the source that is being noted locks the source, and then operations. So it is waited for here; an operation that asks the
    -- source is not.
    perform from postrider.dlq_source s where s.source = p_source for no key update;
    -- Operations are locked before the source, as one that asks it does. One that asks for the first time between the two statements may
    -- deadlock; then this transaction is tried again.
    perform from postrider.dlq_operation o
    where o.dlq_operation_uuid in (select r.dlq_operation_uuid from postrider.dlq_command c join postrider.dlq_redrive r using (redrive_id)
                                   where c.dlq_command_uuid = any (p_undone))
    order by o.dlq_operation_uuid for update;
    perform from postrider.dlq_source s where s.source = p_source for update;
    -- What the source has lost: a redrive was none, and its investigation can be redriven again; a key that was let go is halted again,
    -- and people decide; what closes is commanded again.
    with lost as (
        update postrider.dlq_command c set answer = 'undone'
        where c.dlq_command_uuid = any (p_undone) and c.source = p_source and c.kind in ('redrive', 'release') and c.answer in ('in_place', 'new', 'released')
        returning c.redrive_id
    ), forgotten as (
        delete from postrider.dlq_redrive r using lost l where r.redrive_id = l.redrive_id and num_nulls(r.outcome) = 1
        returning r.dlq_operation_uuid, r.dlq_entry_uuid
    )
    select (select count(l.redrive_id) from lost l) as redrives, array_agg(f.dlq_operation_uuid) as operations, array_agg(f.dlq_entry_uuid) as entries,
           array_agg('undone'::text) as reasons into v_lost from forgotten f;
    redrives := v_lost.redrives;
    perform postrider.dlq_refuse_items(v_lost.operations, v_lost.entries, v_lost.reasons);
    update postrider.dlq_command c set answered_at = null, answer = null, detail = null
    where c.dlq_command_uuid = any (p_undone) and c.source = p_source and c.kind = 'close' and c.answer = 'closed';
    get diagnostics again = row_count;
    -- What this database has lost: redrives that the source carried out.
    noted := 0;
    for a in
        select x.* from jsonb_to_recordset(p_acts) as x(command uuid, answer text, outbox_id bigint, event_id uuid, episode integer, event bigint,
            new_event uuid, target text, edited boolean, actor text)
        where x.answer in ('in_place', 'new') and not exists (select from postrider.dlq_command c where c.dlq_command_uuid = x.command)
    loop
        select e.dlq_entry_uuid into v_entry
        from postrider.dlq_letter l join postrider.dlq_entry e using (dlq_entry_uuid)
        where l.letter_id = p_source || '/event:' || a.event_id || ':' || a.episode and l.source = p_source and l.source_outbox_id = a.outbox_id
          and e.resolution_status = 'pending'
        for update of e;
        if not found or exists (select from postrider.dlq_redrive r where r.dlq_entry_uuid = v_entry and num_nulls(r.outcome) = 1) then
            continue; -- it is not here, is closed, or is being redriven: the source tells that redrive that the event has moved on
        end if;
        select coalesce(max(r.generation), 0) + 1 into v_generation from postrider.dlq_redrive r where r.dlq_entry_uuid = v_entry;
        insert into postrider.dlq_redrive (redrive_id, dlq_entry_uuid, generation, letter_id, outbox_id, event_id, in_place, target, edited, actor, episode, source)
        values (v_entry || ':' || v_generation, v_entry, v_generation, p_source || '/event:' || a.event_id || ':' || a.episode, a.event,
            case a.answer when 'new' then a.new_event else a.event_id end, a.answer = 'in_place', a.target, coalesce(a.edited, false), a.actor,
            case a.answer when 'in_place' then a.episode else 0 end, p_source);
        insert into postrider.dlq_command (dlq_command_uuid, source, kind, dlq_entry_uuid, redrive_id, outbox_id, event_id, episode, actor, answered_at, answer)
        values (a.command, p_source, 'redrive', v_entry, v_entry || ':' || v_generation, a.outbox_id, a.event_id, a.episode, a.actor, clock_timestamp(), a.answer);
        noted := noted + 1;
    end loop;
    update postrider.dlq_source s
    set source_uuid = p_uuid, drawn = greatest(s.drawn, p_heard), answered = p_heard, receipt = p_receipt, stopped = null, stopped_at = null, forgotten_at = null
    where s.source = p_source;
end $$;
comment on function postrider.dlq_rejoin_source(text, uuid, bigint, bigint, uuid[], jsonb) is
'Leads a source back: takes its identity, its outbox_source.heard and its newest receipt for what they are. p_undone are commands that it answered and does not know: redrives are forgotten, keys that were let go stay halted, and what closes is commanded again. p_acts is what it did and this database does not know, as access_find_commands says it: redrives are noted where their investigation is pending here. Returns how many redrives are undone, how many commands are sent again, and how many redrives were noted.';
revoke all on function postrider.dlq_rejoin_source(text, uuid, bigint, bigint, uuid[], jsonb) from public;
