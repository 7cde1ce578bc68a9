-- The rows of a statement have no index: compared without a hash they cost their square, and who changes many switches
-- hashes off for what does have one.
create or replace function postrider.dlq_tell_outbox() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_hashjoin = on as $$
declare
    closed uuid[];
begin
    if tg_op = 'DELETE' then
        perform postrider.dlq_close_events(array[old.dlq_entry_uuid], old.dlq_entry_uuid);
        return old;
    end if;
    select array_agg(a.dlq_entry_uuid) into closed
    from added a join removed r using (dlq_entry_uuid)
    where a.resolution_status <> 'pending' and r.resolution_status = 'pending';
    if closed is not null then
        perform postrider.dlq_close_events(closed);
    end if;
    return null;
end $$;
comment on function postrider.dlq_tell_outbox() is
'Tells the outbox which investigations were closed, or are purged while they are pending: retention may remove their events.';
revoke all on function postrider.dlq_tell_outbox() from public;
