create or replace function postrider.outbox_edit(p_id bigint, p_event_id uuid, p_edited boolean, p_payload bytea, p_headers jsonb) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
    if not exists (select from postrider.outbox_returning(p_id, p_event_id)) then
        return false;
    end if;
    -- The domains have the rules that a writer's row must keep.
    update postrider.outbox_exception x
    set payload = case when p_edited then p_payload::postrider.outbox_payload else x.payload end,
        headers = coalesce(p_headers::postrider.outbox_headers, x.headers)
    where x.id = p_id;
    return true;
end $$;
comment on function postrider.outbox_edit(bigint, uuid, boolean, bytea, jsonb) is
'Internal. Changes the payload (with p_edited) or the headers (where given) of an event that this transaction redrove in its place. The exception is changed, the log stays as it is. For any other event nothing is changed, and the result is false.';
revoke all on function postrider.outbox_edit(bigint, uuid, boolean, bytea, jsonb) from public;
