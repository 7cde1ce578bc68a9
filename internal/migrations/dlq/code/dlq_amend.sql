create or replace function postrider.dlq_amend(p_letter_id text, p_edited boolean, p_payload bytea, p_headers jsonb)
returns integer language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    letter record;
    was    record;
begin
    select e.dlq_entry_uuid as entry, l.outbox_id, l.event_id, l.episode, l.payload_kind, l.key_kind,
           (select h.pair->>1 from jsonb_array_elements(l.headers) h(pair) where h.pair->>0 = 'postrider-invalid-headers' limit 1) as invalid
    into letter
    from postrider.dlq_letter l
    cross join lateral (
        select e.dlq_entry_uuid, e.resolution_status from postrider.dlq_entry e where e.dlq_entry_uuid = l.dlq_entry_uuid limit 1) e
    where l.letter_id = p_letter_id and l.dialect = 'postrider' and e.resolution_status = 'pending'
      and (select r.outcome is null from postrider.dlq_redrive r
           where r.dlq_entry_uuid = e.dlq_entry_uuid order by r.generation desc limit 1) is not true;
    -- This transaction redrove the event in its place: no other session can have it in work, and nothing of it was sent.
    select e.episode, e.headers::text as headers into was from postrider.outbox_returning(letter.outbox_id, letter.event_id) e;
    if not found then
        raise exception using errcode = '55000', message = format('postrider: the event of letter %s cannot be changed', p_letter_id),
            detail = 'only the event of a pending investigation can be, in the transaction that puts it back in its place';
    end if;
    -- The letter keeps what was given up.
    if was.episode <> letter.episode or p_edited and letter.payload_kind = 'reference'
       or p_headers is not null and (letter.key_kind = 'reference' or letter.invalid <> was.headers) then
        return -2;
    end if;
    if p_edited and octet_length(p_payload) > postrider.outbox_max_payload_bytes() then
        return -1;
    end if;
    perform postrider.access_owe('{dlq.requeue}', 'entry', array[letter.entry::text]);
    -- Headers of Postrider's own stay: what the message was first sent as, and how often it was sent again.
    if p_headers is not null and jsonb_typeof(was.headers::jsonb) = 'array' then
        p_headers := p_headers || (select coalesce(jsonb_agg(h.pair), '[]') from jsonb_array_elements(was.headers::jsonb) h(pair)
                                   where h.pair->>0 in ('postrider-hops', 'postrider-redrive-of', 'postrider-redrive-for'));
    end if;
    perform postrider.outbox_edit(letter.outbox_id, letter.event_id, p_edited, p_payload, p_headers);
    return 1;
end $$;
comment on function postrider.dlq_amend(text, boolean, bytea, jsonb) is
'Changes the payload (with p_edited) or the headers (where given) of an event that the same transaction redrove in its place with outbox_redrive. Its letter, of a pending investigation, keeps the original. -1 is returned for a payload beyond the limit, -2 where the letter has not the whole of what would be replaced; then nothing is changed.';
revoke all on function postrider.dlq_amend(text, boolean, bytea, jsonb) from public;
