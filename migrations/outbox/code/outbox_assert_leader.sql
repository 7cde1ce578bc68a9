create or replace function postrider.outbox_assert_leader(p_nonce bigint) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    if pg_try_advisory_xact_lock(p_nonce) then
        raise exception using errcode = 'PR001', message = 'postrider: the session that led the outbox is gone',
            hint = 'Another relay may lead by now. Nothing was written.';
    end if;
end $$;
comment on function postrider.outbox_assert_leader(bigint) is
'Internal. Raises PR001 unless the session of the leader lives, which holds the advisory lock with this number in share mode as long as it does.';
