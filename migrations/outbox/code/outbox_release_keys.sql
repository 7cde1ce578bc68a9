create or replace function postrider.outbox_release_keys(p_events bigint[]) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    released bigint;
begin
    -- Locked in the order in which the relay takes them.
    with halted as materialized (
        select h.hold_id
        from unnest(p_events) as w(id)
        join postrider.outbox_event e on e.id = any (array[w.id])
        join postrider.outbox_hold h on h.topic = e.topic and h.scope = 'key' and coalesce(sha256(h.key), ''::bytea) = sha256(e.key)
            and coalesce(h.partition, -1) = -1 and coalesce(h.partitions, -1) = -1
        where h.event_id = e.event_id and h.cause = 'halted' and not h.draining
        order by h.topic, h.scope, h.key
        for update of h
    )
    update postrider.outbox_hold h set next_probe_at = clock_timestamp(), draining = true
    from halted t where h.hold_id = t.hold_id;
    get diagnostics released = row_count;
    if released > 0 then
        perform postrider.access_owe();
    end if;
    return released;
end $$;
comment on function postrider.outbox_release_keys(bigint[]) is
'Lets the keys go that these events halt: what waits behind them comes back, in order, and the events stay dead-lettered. Returns how many keys that are.';
revoke all on function postrider.outbox_release_keys(bigint[]) from public;
