create or replace function postrider.outbox_obey_redrive(x postrider.outbox_exception, p_halting uuid, p_command jsonb, out answer text, out event bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    v_target  constant text := p_command->>'target';
    v_edited  constant boolean := coalesce((p_command->>'edited')::boolean, false);
    v_payload constant bytea := decode(p_command->>'payload', 'base64');
    v_headers jsonb := nullif(p_command->'headers', 'null');
    v_new     constant uuid := (p_command->>'new_event')::uuid;
    v_own     jsonb; -- headers of Postrider's own, by name
    v_hops    integer;
    c         record;
begin
    if num_nulls(v_target, v_new, p_command->>'redrive', p_command->>'max_hops') > 0 then
        raise exception using errcode = '22023', message = format('postrider: %L is no redrive that this outbox knows', left(p_command::text, 200));
    end if;
    if jsonb_typeof(x.headers) = 'array' then
        select jsonb_object_agg(p.pair->>0, p.pair->>1) into v_own from jsonb_array_elements(x.headers) p(pair)
        where p.pair->>0 in ('postrider-hops', 'postrider-redrive-of', 'postrider-redrive-for') and jsonb_typeof(p.pair->1) = 'string';
    end if;
    v_hops := case when v_own->>'postrider-hops' ~ '^[0-9]{1,6}$' then (v_own->>'postrider-hops')::integer else 0 end;
    if v_edited and octet_length(v_payload) > postrider.outbox_max_payload_bytes() then
        answer := 'payload_too_large';
    elsif exists (select from postrider.outbox_own_topic o where o.topic = v_target)
          and (v_target <> x.topic or x.last_error_code = 'RESERVED_TOPIC') then
        answer := 'reserved_topic';
    elsif p_halting = x.event_id and v_target <> x.topic then
        answer := 'halts_key';
    elsif p_halting <> x.event_id and v_target = x.topic then
        answer := 'key_halted';
    -- In its place the message is changed where it is, and the letter keeps what was given up.
    elsif p_halting = x.event_id and (v_edited and coalesce((p_command->>'payload_left_out')::boolean, false)
          or v_headers is not null and (coalesce((p_command->>'headers_left_out')::boolean, false) or p_command->>'unreadable_headers' <> x.headers::text)) then
        answer := 'only_copy';
    elsif p_halting is distinct from x.event_id and v_hops >= (p_command->>'max_hops')::integer then
        answer := 'too_many_hops';
    end if;
    if answer is not null then
        return;
    end if;
    if p_halting = x.event_id then
        perform postrider.outbox_redrive(x.id);
        if v_edited or v_headers is not null then
            perform postrider.outbox_edit(x.id, x.event_id, v_edited, v_payload, v_headers
                || coalesce((select jsonb_agg(jsonb_build_array(o.key, o.value)) from jsonb_each(v_own) o), '[]'));
        end if;
        answer := 'in_place';
        event := x.id;
        return;
    end if;
    -- What was given up stays here, with its copy, until it is closed; what is sent is its content, whatever the letter says.
    select * into strict c from postrider.outbox_content(x.id, x.event_id);
    if not v_edited and octet_length(c.payload) > postrider.outbox_max_payload_bytes() then
        answer := 'payload_too_large';
        return;
    end if;
    select n.id into strict event from postrider.outbox_insert(
        array[v_new], array[case c.kind when 'task' then 'task' else 'redrive' end], array[v_target], array[c.key],
        array[case when v_edited then v_payload else c.payload end],
        array[postrider.outbox_redrive_headers(coalesce(v_headers, c.headers), jsonb_build_array(
            jsonb_build_array('replay_of', 'event:' || x.event_id), jsonb_build_array('replay_id', p_command->>'redrive'),
            jsonb_build_array('postrider-hops', (v_hops + 1)::text),
            -- What inboxes know the message by: it stays the same, however often the message is sent again.
            jsonb_build_array('postrider-redrive-of', coalesce(v_own->>'postrider-redrive-of', 'event:' || x.event_id)))
            || case when v_own ? 'postrider-redrive-for' then jsonb_build_array(jsonb_build_array('postrider-redrive-for', v_own->>'postrider-redrive-for')) else '[]' end,
            v_new, p_command->>'traceparent')],
        array[c.max_attempts], array[c.task_uuid], null,
        -- Another topic has partitions of its own.
        array[case when v_target = x.topic then c.partition end], array[c.record_timestamp]) n(id);
    answer := 'new';
end $$;
comment on function postrider.outbox_obey_redrive(postrider.outbox_exception, uuid, jsonb) is
'Internal. Sends a dead-lettered event again: in its place if it halts its key (p_halting is the event that does, if any), otherwise as a new event. The caller has locked the exception and the hold. Without an answer of in_place or new nothing was done.';
revoke all on function postrider.outbox_obey_redrive(postrider.outbox_exception, uuid, jsonb) from public;
