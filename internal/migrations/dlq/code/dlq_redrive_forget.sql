create or replace function postrider.dlq_redrive_forget() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    delete from postrider.dlq_redrive r using removed d where r.dlq_entry_uuid = d.dlq_entry_uuid and r.outcome is not null;
    return null;
end $$;
comment on function postrider.dlq_redrive_forget() is
'Removes the redrives of purged investigations. One that is on its way stays until it ended, because its operation waits for that.';
revoke all on function postrider.dlq_redrive_forget() from public;
