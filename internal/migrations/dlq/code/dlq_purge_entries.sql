create or replace function postrider.dlq_purge_entries(p_entries uuid[]) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    gone text[];
begin
    with removed as (
        delete from postrider.dlq_entry e where e.dlq_entry_uuid = any (p_entries) returning e.dlq_entry_uuid
    )
    select array_agg(r.dlq_entry_uuid::text) into gone from removed r;
    if gone is null then
        return 0;
    end if;
    perform postrider.access_owe('{dlq.purge}', 'entry', gone);
    return cardinality(gone);
end $$;
comment on function postrider.dlq_purge_entries(uuid[]) is
'Removes investigations for good, with what their letters have of the messages, and returns how many. The letters'' ids stay. The keys that their events halt are the caller''s to look after.';
revoke all on function postrider.dlq_purge_entries(uuid[]) from public;
