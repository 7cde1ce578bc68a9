create or replace function postrider.outbox_new_identity(p_name text, p_desk text default null, p_backlog text default 'send') returns postrider.outbox_source
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    s postrider.outbox_source;
    p record;
    v_drawn bigint;
    v_open int8multirange;
begin
    if p_name is null then
        raise exception using errcode = '22004', message = 'postrider: the name of the source is null';
    elsif p_backlog is null or p_backlog not in ('send', 'leave') then
        raise exception using errcode = '22023', message = format('postrider: the backlog of a copy is to be %L; it must be send or leave', p_backlog);
    end if;
    select * into strict s from postrider.outbox_source for update;
    if coalesce(s.name, 'main') = p_name then
        raise exception using errcode = '22023', message = format('postrider: this outbox is the source %s already', p_name),
            hint = 'A new identity has a name that no source had before.';
    end if;
    if (select l.leads from postrider.outbox_leader l) then
        raise exception using errcode = '55000', message = 'postrider: a relay leads this outbox',
            hint = 'Take the copy out of the settings of postrider serve first: what leads it now takes it for the original.';
    end if;
    if p_backlog = 'leave' then
        -- No writer may commit an event behind the position meanwhile: it would be passed over.
        lock table postrider.outbox_event in share row exclusive mode;
        lock table postrider.outbox_exception, postrider.outbox_hold in share row exclusive mode;
        select * into strict p from postrider.outbox_progress;
        v_drawn := greatest(p.position, coalesce((select max(e.id) from postrider.outbox_event e), 0));
        v_open := p.gaps + case when v_drawn > p.position then int8multirange(int8range(p.position + 1, v_drawn + 1)) else '{}' end;
        insert into postrider.outbox_receipt (number, term, position, first_id, events, forgotten, gaps, note)
        select p.number + 1, p.term, v_drawn, lower(e.ids), e.ids, v_open - e.ids, '{}', 'moved'
        from (select coalesce(range_agg(int8range(e.id, e.id + 1)), '{}') as ids from postrider.outbox_event e where e.id <@ v_open) e;
        delete from postrider.outbox_exception;
        delete from postrider.outbox_hold;
        delete from postrider.outbox_skip_request;
    else
        -- As events of the new source they are given up once more, and get dead letters of their own.
        update postrider.outbox_exception x set state = 'exhausted', sent_at = null, next_attempt_at = null, obeyed = null
        where x.state = 'dead_lettered' and x.closed_at is null;
    end if;
    update postrider.outbox_source o set source_uuid = gen_random_uuid(), name = p_name, desk = p_desk, installed_at = now(), place = postrider.outbox_place(), heard = 0
    returning * into strict s;
    return s;
end $$;
comment on function postrider.outbox_new_identity(text, text, text) is
'Makes a copy of a database an outbox of its own: draws a new uuid, gives it a new name and the desk that it obeys (null for none yet), and returns the row of outbox_source. p_backlog says what becomes of the events that were copied and have not gone: send sends them from here, too, with the event ids that they have, and dead-lettered events whose investigation is open get a dead letter of the new source; leave counts all of them as the original''s, with its exceptions and holds. For the owner of the schema, and for the copy alone: letters and commands of the outbox that it was copied from are not its own any more.';
revoke all on function postrider.outbox_new_identity(text, text, text) from public;
