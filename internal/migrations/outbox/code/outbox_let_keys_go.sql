create or replace function postrider.outbox_let_keys_go(p_events bigint[]) returns bigint[]
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    released bigint[];
begin
    with halted as materialized (
        select h.hold_id, w.id
        from unnest(p_events) as w(id)
        join postrider.outbox_exception x on x.id = any (array[w.id])
        join postrider.outbox_hold h on h.event_id = x.event_id and h.cause = 'halted'
        where h.scope = 'key' and h.asked is null
        order by h.hold_id
        for update of h
    ), asked as (
        update postrider.outbox_hold h set next_probe_at = clock_timestamp(), asked = 'release'
        from halted t where h.hold_id = t.hold_id
        returning t.id
    )
    select coalesce(array_agg(a.id), '{}') into released from asked a;
    return released;
end $$;
comment on function postrider.outbox_let_keys_go(bigint[]) is
'Internal. Lets the keys go that these events halt, and returns the events whose keys went. The caller has what it did in the audit log.';
revoke all on function postrider.outbox_let_keys_go(bigint[]) from public;
