create or replace function postrider.outbox_purge_exceptions(p_keep interval, p_rows integer, p_dry_run boolean default false,
    out removed bigint, out more boolean, out busy boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set lock_timeout = '1s' as $$
begin
    removed := 0;
    more := false;
    perform from postrider.outbox_retention r where r.kind = 'dead_lettered' for update skip locked;
    busy := not found;
    if busy then
        return;
    end if;
    if p_dry_run then
        select count(*) into removed from postrider.outbox_exception x
        where x.closed_at <= clock_timestamp() - p_keep and x.state = 'dead_lettered'
          and not exists (select from postrider.outbox_event e where e.id = x.id);
        return;
    end if;
    -- Not before its row of the log: without it that would seem to have been acknowledged.
    delete from postrider.outbox_exception x
    where x.id = any (array(
        select o.id from postrider.outbox_exception o
        where o.closed_at <= clock_timestamp() - p_keep and o.state = 'dead_lettered'
          and not exists (select from postrider.outbox_event e where e.id = o.id)
          and not exists (select from postrider.outbox_hold h where h.event_id = o.event_id and h.cause in ('halted', 'redrive'))
        order by o.closed_at limit p_rows for update skip locked));
    get diagnostics removed = row_count;
    more := removed >= p_rows;
end $$;
comment on function postrider.outbox_purge_exceptions(interval, integer, boolean) is
'Removes dead-lettered events whose investigation was closed at least as long ago as is given, up to p_rows. One that halts its key stays, and one whose row the log still has. busy: another session is at it.';
revoke all on function postrider.outbox_purge_exceptions(interval, integer, boolean) from public;
