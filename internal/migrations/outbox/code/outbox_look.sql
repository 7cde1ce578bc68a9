create or replace function postrider.outbox_look(p_id bigint, p_event_id uuid)
returns table (key bytea, payload bytea, headers jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select c.key, c.payload,
           case when jsonb_typeof(c.headers) = 'object'
                then (select coalesce(jsonb_agg(jsonb_build_array(h.key, h.value)), '[]') from jsonb_each(c.headers) h)
                else c.headers end
    from postrider.outbox_content(p_id, p_event_id) c
$$;
comment on function postrider.outbox_look(bigint, uuid) is
'Key, payload and headers, as pairs, of an event, for the letter that refers to them.';
revoke all on function postrider.outbox_look(bigint, uuid) from public;
