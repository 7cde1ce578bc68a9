create or replace function postrider.outbox_release(hold bigint)
returns table (scope text, topic text, key bytea, cause text, draining boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    update postrider.outbox_hold h
    set next_probe_at = clock_timestamp(),
        asked = case when h.cause in ('halted', 'redrive', 'circuit_breaker') then 'release' else h.asked end
    where h.hold_id = hold
    returning h.scope, h.topic, h.key, h.cause, h.draining or h.cause in ('halted', 'redrive', 'circuit_breaker');
    if found then
        perform postrider.access_owe('{outbox.release}', 'hold', array[hold::text]);
    end if;
end $$;
comment on function postrider.outbox_release(bigint) is
'Ends the wait of a hold. Behind a halted key all that waits comes back, in order; a circuit breaker has all that it keeps tried once more; any other hold lets one event through, to see whether the cause is gone. Returns what the hold was, nothing when there is none.';
revoke all on function postrider.outbox_release(bigint) from public;
