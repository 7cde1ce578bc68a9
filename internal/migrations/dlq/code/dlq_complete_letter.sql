create or replace function postrider.dlq_complete_letter(
    p_letter_id text, p_state text, p_key bytea, p_payload bytea, p_headers jsonb, p_event_id uuid, p_note jsonb, p_snapshot jsonb)
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    entry uuid;
begin
    -- What a letter has is never changed: only one that has neither key nor value, or whose value was left out, and that
    -- points to a record, is completed, once.
    update postrider.dlq_letter l
    set original_record = p_state,
        key = case when p_state = 'fetched' then p_key else l.key end,
        key_kind = case when p_state <> 'fetched' then l.key_kind when p_key is null then 'tombstone' else 'inline' end,
        payload = case when p_state = 'fetched' then p_payload end,
        payload_kind = case when p_state <> 'fetched' then l.payload_kind when p_payload is null then 'tombstone' else 'inline' end,
        payload_bytes = case when p_state = 'fetched' then octet_length(p_payload) else l.payload_bytes end,
        headers = case when p_state = 'fetched' and l.headers = '[]' then p_headers else l.headers end,
        event_id = case when p_state = 'fetched' then coalesce(l.event_id, p_event_id) else l.event_id end
    where l.letter_id = p_letter_id and l.dlq_entry_uuid is not null and l.outbox_id is null
      and l.origin_topic <> '' and l.origin_partition is not null and l.origin_offset is not null
      and (l.payload_kind = 'reference' or l.key is null and l.payload is null)
      and l.original_record is distinct from 'fetched'
    returning l.dlq_entry_uuid into entry;
    if not found then
        return false;
    end if;
    perform postrider.access_owe('{dlq.fetch}', 'entry', array[entry::text]);
    update postrider.dlq_entry e set metadata = coalesce(e.metadata, '{}') || p_note, snapshot = coalesce(p_snapshot, e.snapshot), updated_at = now()
    where e.dlq_entry_uuid = entry;
    return true;
end $$;
comment on function postrider.dlq_complete_letter(text, text, bytea, bytea, jsonb, uuid, jsonb, jsonb) is
'Notes the result of asking for the record that a letter points to (see dlq_letter.original_record). For fetched, stores its key, payload, headers and event id. The note is merged into the metadata of its investigation; the snapshot, if not null, replaces the stored one. If the letter points to no record, or has its bytes already, nothing is changed and false is returned.';
revoke all on function postrider.dlq_complete_letter(text, text, bytea, bytea, jsonb, uuid, jsonb, jsonb) from public;
