create or replace function postrider.outbox_event_id() returns uuid
language sql volatile parallel safe set search_path = pg_catalog, pg_temp as $$
    select encode(set_byte(overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
                           6, 112 + (random() * 15)::integer), 'hex')::uuid
$$;
comment on function postrider.outbox_event_id() is 'A new event id: a UUID of version 7, as the default of outbox_event.event_id makes it.';
