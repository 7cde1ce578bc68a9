create or replace function postrider.task_investigations_changed(p_entry_uuids uuid[], p_pending boolean) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
    with told as materialized ( -- locked in one order, which the archiver keeps as well
        select l.letter_id from unnest(p_entry_uuids) i(entry_uuid)
        join postrider.tasker_letter l on l.entry_uuid = i.entry_uuid
        where (l.closed_at is null) <> p_pending
        order by l.letter_id for update of l
    )
    update postrider.tasker_letter l set closed_at = case when not p_pending then clock_timestamp() end
    from told t where l.letter_id = t.letter_id;
end $$;
comment on function postrider.task_investigations_changed(uuid[], boolean) is
'For the desk: these investigations are pending from now on, or no longer, because they were closed or purged. Investigations of no task are skipped.';
revoke all on function postrider.task_investigations_changed(uuid[], boolean) from public;
