create or replace function postrider.outbox_release_keys(p_events bigint[]) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    released bigint;
begin
    with halted as materialized (
        select h.hold_id
        from unnest(p_events) as w(id)
        join postrider.outbox_exception x on x.id = any (array[w.id])
        join postrider.outbox_hold h on h.event_id = x.event_id and h.cause = 'halted'
        where h.scope = 'key' and h.asked is null
        order by h.hold_id
        for update of h
    )
    update postrider.outbox_hold h set next_probe_at = clock_timestamp(), asked = 'release'
    from halted t where h.hold_id = t.hold_id;
    get diagnostics released = row_count;
    if released > 0 then
        perform postrider.access_owe();
    end if;
    return released;
end $$;
comment on function postrider.outbox_release_keys(bigint[]) is
'Lets the keys go that these events halt: the later events of the keys come back, in order, and the events stay dead-lettered. Returns how many keys that are.';
revoke all on function postrider.outbox_release_keys(bigint[]) from public;
