create or replace function postrider.outbox_redrive_headers(p_headers jsonb, p_added jsonb, p_event_id uuid, p_traceparent text) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    pairs  jsonb := p_headers;
    parent text;
    ids    text;
begin
    if jsonb_typeof(pairs) = 'object' then
        pairs := (select coalesce(jsonb_agg(jsonb_build_array(x.key, x.value)), '[]') from jsonb_each(p_headers) x);
    end if;
    -- Removed are: the headers of an earlier redrive, so that they do not pile up; the postrider- headers, which a consumer that
    -- gave a message up copied with the rest; and headers without a name or with control characters in it, because the outbox
    -- refuses them from every writer: the caller asks for other headers first. The letter keeps them all. Most messages have none.
    if jsonb_path_exists(pairs, 'strict $[*] ? (@[0] == "" || @[0] == "replay_of" || @[0] == "replay_id" || @[0] == "replay_origin" || @[0] == "replay_traceparent" || @[0] like_regex "^postrider-" flag "i" || @[0] like_regex "[\\x01-\\x1f\\x7f]")') then
        pairs := (select coalesce(jsonb_agg(x.pair order by x.place), '[]')
                  from jsonb_array_elements(pairs) with ordinality x(pair, place)
                  where x.pair->>0 <> '' and x.pair->>0 !~ '[\x01-\x1f\x7f]' and lower(left(x.pair->>0, 10)) <> 'postrider-'
                    and x.pair->>0 not in ('replay_of', 'replay_id', 'replay_origin', 'replay_traceparent'));
    end if;
    -- A redrive is a trace of its own, recorded if the old one is, which the relay links to it. What cannot be read as one
    -- traceparent stays as it is.
    if pairs @> '[["traceparent"]]' then
        parent := (select min(x.pair->>1) from jsonb_array_elements(pairs) x(pair) where x.pair->>0 = 'traceparent' having count(*) = 1);
    end if;
    if parent ~ '^(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}|(?!00|ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?)$'
       and substr(parent, 4, 32) <> repeat('0', 32) and substr(parent, 37, 16) <> repeat('0', 16) then
        -- It begins with the span of the redrive: version, trace and span. Without one, its ids are made from the id of the event,
        -- which is random and unique. Where the span is not recorded, nothing that comes of it is.
        ids := encode(sha256(uuid_send(p_event_id)), 'hex');
        pairs := (select jsonb_agg(case when x.pair->>0 = 'traceparent'
                                   then jsonb_build_array('traceparent',
                                       coalesce(left(p_traceparent, 53), '00-' || left(ids, 32) || '-' || substr(ids, 33, 16) || '-')
                                       || case when right(p_traceparent, 2) = '00' then '00' else substr(parent, 54, 2) end)
                                   else x.pair end order by x.place)
                  from jsonb_array_elements(pairs) with ordinality x(pair, place)
                  where x.pair->>0 <> 'tracestate'); -- it says something about the old one
        p_added := p_added || jsonb_build_array(jsonb_build_array('replay_traceparent', parent));
    end if;
    return pairs || p_added;
end $$;
comment on function postrider.outbox_redrive_headers(jsonb, jsonb, uuid, text) is
'Internal. The headers of a message that is sent again as the event p_event_id: its own without the ones of an earlier redrive and without names that no writer may give, then p_added. Its trace begins with p_traceparent, the span of the redrive, or with one that is made from the event; the old trace is named in replay_traceparent.';
revoke all on function postrider.outbox_redrive_headers(jsonb, jsonb, uuid, text) from public;
