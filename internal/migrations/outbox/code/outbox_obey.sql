create or replace function postrider.outbox_obey(p_desk text, p_commands jsonb, p_call bigint default 0, p_answered bigint default 0)
returns table (place bigint, answer text, event bigint, detail text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' set enable_seqscan = off
set enable_bitmapscan = off as $$
declare
    obeyed  postrider.outbox_source;
    command jsonb;
    subject text;
    waiting text[] := '{}'; -- a command about each of these keys waits: what follows of them waits, too
begin
    if coalesce(p_desk, '') = '' then
        raise exception using errcode = '22023', message = 'postrider: the desk that commands has no name';
    end if;
    select * into strict obeyed from postrider.outbox_source;
    if obeyed.desk is null then
        -- The condition is asked again when another session has the row: the first desk stays.
        update postrider.outbox_source o set desk = p_desk where o.desk is null;
        select * into strict obeyed from postrider.outbox_source;
    end if;
    if obeyed.desk <> p_desk then
        raise exception using errcode = '55000',
            message = format('postrider: the source %s belongs to the desk %s and does not obey %s', coalesce(obeyed.name, 'main'), obeyed.desk, p_desk),
            hint = 'A source obeys one desk. To hand it to another, the owner of its schema runs: update postrider.outbox_source set desk = null';
    end if;
    if obeyed.heard < p_answered then
        raise exception using errcode = 'PR004',
            message = format('postrider: the source %s was set back: it has answered call %s of its desk, and knows of %s', coalesce(obeyed.name, 'main'), p_answered, obeyed.heard),
            hint = 'postrider sources rejoin says what is undone, and leads it back.';
    end if;
    for command, place in select c.value, c.ordinality from jsonb_array_elements(p_commands) with ordinality c loop
        answer := 'busy';
        event := null;
        detail := null;
        subject := null;
        begin -- each in a savepoint: one refusal spoils no other
            select x.topic || ' ' || encode(sha256(x.key), 'hex') into subject from postrider.outbox_exception x
            where x.id = (command->>'outbox_id')::bigint and x.event_id = (command->>'event_id')::uuid;
            if subject is null or subject <> all (waiting) then
                select o.answer, o.event into answer, event from postrider.outbox_obey_one(p_desk, command || jsonb_build_object('call', p_call)) o;
            end if;
        exception
            -- The relay has the event or its key in hand.
            when lock_not_available or deadlock_detected or object_not_in_prerequisite_state then
                detail := sqlerrm;
            -- The outbox does not take the message as it is. Every other error is about the database: the call is repeated.
            when data_exception or integrity_constraint_violation or program_limit_exceeded then
                answer := 'refused';
                detail := left(sqlerrm, 1000);
        end;
        if answer = 'busy' and subject is not null then
            waiting := array_append(waiting, subject);
        end if;
        return next;
    end loop;
    -- At the end, and no sooner: until this is committed another call waits for the row.
    update postrider.outbox_source o set heard = p_call where o.heard < p_call;
end $$;
comment on function postrider.outbox_obey(text, jsonb, bigint, bigint) is
'Does what a desk commands about events that were given up here, in the order of the array, and says of each command, by its place, what came of it. A command acts once, however often it is sent: it names the event (outbox_id, event_id) and how often that had been given up (episode), and each act ends that or is noted in outbox_exception.obeyed. The first desk that commands is the one that is obeyed; another is refused (55000). p_call is the number of the call, which the desk drew before, and p_answered the highest number whose answers the desk has noted: if this database knows of no call with such a number, it was set back, and nothing is done (PR004). Answers: in_place and new (a redrive, with the id of the event that carries the message), closed, released (a key), no_key (the event halts none), stale (the event has moved on), gone, delivered (it was redriven by hand, and has arrived), busy (ask again), refused with detail, and why else a redrive is refused: key_halted, halts_key, too_many_hops, payload_too_large, only_copy, reserved_topic.';
revoke all on function postrider.outbox_obey(text, jsonb, bigint, bigint) from public;
