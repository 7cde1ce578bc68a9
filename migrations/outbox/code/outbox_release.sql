create or replace function postrider.outbox_release(hold bigint)
returns table (scope text, topic text, key bytea, cause text, draining boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    update postrider.outbox_hold h
    set next_probe_at = clock_timestamp(), draining = h.draining or h.cause in ('halted', 'redrive', 'storm')
    where h.hold_id = hold
    returning h.scope, h.topic, h.key, h.cause, h.draining;
    if found then
        perform postrider.access_owe();
    end if;
end $$;
comment on function postrider.outbox_release(bigint) is
'Ends the wait of a hold: a halted key, or a storm, lets go of all that waits, in order; any other hold lets one event through, to see whether the cause is gone. Returns what the hold was, nothing when there is none.';
revoke all on function postrider.outbox_release(bigint) from public;
