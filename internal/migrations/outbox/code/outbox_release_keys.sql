create or replace function postrider.outbox_release_keys(p_events bigint[]) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    released bigint[] := postrider.outbox_let_keys_go(p_events);
begin
    if cardinality(released) > 0 then
        perform postrider.access_owe('{outbox.release, dlq.resolve, dlq.purge, group.resolve}', 'event', released::text[]);
    end if;
    return cardinality(released);
end $$;
comment on function postrider.outbox_release_keys(bigint[]) is
'Lets the keys go that these events halt: the later events of the keys come back, in order, and the events stay dead-lettered. Returns how many keys that are.';
revoke all on function postrider.outbox_release_keys(bigint[]) from public;
