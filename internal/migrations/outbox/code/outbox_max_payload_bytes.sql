create or replace function postrider.outbox_max_payload_bytes() returns integer
language sql stable parallel safe set search_path = pg_catalog, pg_temp as $$
    select coalesce((select (regexp_match(pg_get_constraintdef(c.oid), '<= (\d+)'))[1]::integer
                     from pg_constraint c
                     where c.contypid = 'postrider.outbox_payload'::regtype and c.conname = 'outbox_event_payload_size'), 1000000000)
$$;
comment on function postrider.outbox_max_payload_bytes() is
'The largest payload, in bytes, that outbox_event accepts. 16777216 (16 MiB) unless outbox_set_max_payload_bytes changed it.';
