create or replace function postrider.outbox_set_max_payload_bytes(bytes integer) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    if bytes is null or bytes < 1 or bytes > 1000000000 then
        raise exception using errcode = '22023',
            message = format('postrider: bytes is %s, it must be between 1 and 1000000000', coalesce(bytes::text, 'null'));
    end if;
    alter domain postrider.outbox_payload drop constraint outbox_event_payload_size;
    execute format('alter domain postrider.outbox_payload add constraint outbox_event_payload_size check (octet_length(value) <= %s) not valid', bytes);
end $$;
comment on function postrider.outbox_set_max_payload_bytes(integer) is
'Changes the largest payload, in bytes, that outbox_event accepts from now on; rows already there stay. For the owner of the schema. Where there are tasks it should not be below 8192: an event about one is made no smaller than that, and a task whose event does not fit cannot change.';
revoke all on function postrider.outbox_set_max_payload_bytes(integer) from public;
