create or replace function postrider.outbox_assert_leader(p_nonce bigint) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    v_leads boolean;
begin
    -- "Post", 3: a term that begins waits for the transactions of the term before that have come this far.
    perform pg_advisory_xact_lock_shared(1349481332, 3);
    begin
        -- One at a time: the try of another transaction would be taken for the leader's lock.
        perform pg_advisory_xact_lock(~p_nonce);
        v_leads := not pg_try_advisory_xact_lock(p_nonce);
        raise exception using errcode = 'PR003';
    exception when sqlstate 'PR003' then
        null; -- both locks are given back
    end;
    if not v_leads then
        raise exception using errcode = 'PR001', message = 'postrider: the session that led the outbox is gone',
            hint = 'Another relay may lead by now. Nothing was written.';
    end if;
end $$;
comment on function postrider.outbox_assert_leader(bigint) is
'Internal. Raises PR001 unless the session of the leader lives, which holds the advisory lock with this number in share mode as long as it does. Until the calling transaction ends no other term begins.';
