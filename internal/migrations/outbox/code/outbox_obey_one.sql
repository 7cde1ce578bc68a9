-- The event is found by its id and its event id, as everywhere: another event of the same number is another event.
create or replace function postrider.outbox_obey_one(p_desk text, p_command jsonb, out answer text, out event bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    v_command constant text := p_command->>'command';
    v_id      constant bigint := (p_command->>'outbox_id')::bigint;
    v_event   constant uuid := (p_command->>'event_id')::uuid;
    x postrider.outbox_exception;
    h postrider.outbox_hold;
    v_changed integer;
    v_act     jsonb; -- what this command did, by the audit log
begin
    if p_command->>'kind' not in ('redrive', 'close', 'release') or num_nulls(p_command->>'kind', v_command, v_id, v_event, p_command->>'episode', p_command->>'actor') > 0 then
        raise exception using errcode = '22023', message = format('postrider: %L is no command that this outbox knows', left(p_command::text, 200));
    end if;
    select * into x from postrider.outbox_exception o where o.id = v_id and o.event_id = v_event for update nowait;
    if not found then
        -- In its place it went, and its exception with it; or it was closed, and retention removed it. The audit log knows what
        -- this command did.
        v_act := postrider.access_find_audit(case p_command->>'kind' when 'release' then 'outbox.release' else 'dlq.requeue' end, 'event', v_id::text,
            jsonb_build_object('command', v_command));
        event := v_act->>'event';
        answer := v_act->>'answer';
        if answer is null then
            select case when s.state <> 'published' then 'stale' when p_command->>'kind' = 'redrive' then 'delivered' end into answer
            from postrider.outbox_standing(array[v_id], array[v_event]) s;
            answer := coalesce(answer, 'gone');
        end if;
        return;
    end if;
    event := (x.obeyed->>v_command)::bigint;
    if event is not null and p_command->>'kind' = 'release' then
        event := null;
        answer := 'released';
        return;
    elsif event is not null then
        answer := case when event = x.id then 'in_place' else 'new' end;
        return;
    end if;
    if x.episode <> (p_command->>'episode')::integer or x.state not in ('exhausted', 'dead_lettered') then
        answer := 'stale';
        return;
    end if;
    -- Only a hold for which an operator is waited for; one that drains is over.
    select * into h from postrider.outbox_hold o
    where o.topic = x.topic and o.scope = 'key' and coalesce(sha256(o.key), ''::bytea) = sha256(x.key)
      and coalesce(o.partition, -1) = -1 and coalesce(o.partitions, -1) = -1 and coalesce(o.code, '') = ''
      and o.cause = 'halted' and not o.draining and o.asked is null
    for update nowait;
    if p_command->>'kind' = 'close' then
        v_changed := postrider.outbox_close(array[x.id], array[x.event_id], array[x.episode]) + cardinality(postrider.outbox_let_keys_go(array[x.id]));
        answer := 'closed';
        if v_changed = 0 then
            return; -- it was closed before
        end if;
    elsif x.state = 'exhausted' then
        answer := 'busy'; -- its dead letter is here before the relay has noted that it was taken
        return;
    elsif p_command->>'kind' = 'release' then
        if h.event_id is distinct from x.event_id then
            answer := 'no_key';
            return;
        end if;
        perform postrider.outbox_let_keys_go(array[x.id]);
        answer := 'released';
        update postrider.outbox_exception o set obeyed = coalesce(o.obeyed, '{}') || jsonb_build_object(v_command, x.id) where o.id = x.id;
    else
        select r.answer, r.event into answer, event from postrider.outbox_obey_redrive(x, h.event_id, p_command) r;
        if event is null then
            return;
        end if;
        update postrider.outbox_exception o set obeyed = coalesce(o.obeyed, '{}') || jsonb_build_object(v_command, event) where o.id = x.id;
    end if;
    perform postrider.access_add_audit(p_command->>'actor', case answer when 'closed' then 'dlq.resolve' when 'released' then 'outbox.release' else 'dlq.requeue' end, 'event', x.id::text,
        jsonb_strip_nulls(jsonb_build_object('desk', p_desk, 'command', v_command, 'entry', p_command->>'entry', 'episode', x.episode, 'event', event,
            'call', (p_command->>'call')::bigint, 'answer', answer, 'event_id', x.event_id, 'target', p_command->>'target', 'edited', (p_command->>'edited')::boolean,
            'new_event', case answer when 'new' then p_command->>'new_event' end)));
end $$;
comment on function postrider.outbox_obey_one(text, jsonb) is
'Internal. One command of outbox_obey. A row that another session has locked is an error (55P03).';
revoke all on function postrider.outbox_obey_one(text, jsonb) from public;
