create or replace function postrider.outbox_event_id() returns uuid
language sql volatile parallel safe set search_path = pg_catalog, pg_temp as $$
    select (lpad(to_hex((date_part('epoch', clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || substr(gen_random_uuid()::text, 16))::uuid
$$;
comment on function postrider.outbox_event_id() is 'A new event id: a UUID of version 7, as the default of outbox_event.event_id makes it.';
