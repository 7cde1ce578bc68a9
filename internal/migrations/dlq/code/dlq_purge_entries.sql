create or replace function postrider.dlq_purge_entries(p_entries uuid[]) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    gone bigint;
begin
    perform postrider.access_owe();
    delete from postrider.dlq_entry e where e.dlq_entry_uuid = any (p_entries);
    get diagnostics gone = row_count;
    return gone;
end $$;
comment on function postrider.dlq_purge_entries(uuid[]) is
'Removes investigations for good, with what their letters have of the messages, and returns how many. The letters'' ids stay. The keys that their events halt are the caller''s to look after.';
revoke all on function postrider.dlq_purge_entries(uuid[]) from public;
