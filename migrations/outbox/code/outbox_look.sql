create or replace function postrider.outbox_look(p_id bigint, p_event_id uuid)
returns table(key bytea, payload bytea, headers jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select e.key, e.payload,
           case when jsonb_typeof(e.headers) = 'object'
                then (select coalesce(jsonb_agg(jsonb_build_array(h.key, h.value)), '[]') from jsonb_each(e.headers) h)
                else e.headers end
    from postrider.outbox_event e where e.id = p_id and e.event_id = p_event_id
$$;
comment on function postrider.outbox_look(bigint, uuid) is 'Key, payload and headers, as pairs, of an event, for the letter that refers to them.';
revoke all on function postrider.outbox_look(bigint, uuid) from public;
