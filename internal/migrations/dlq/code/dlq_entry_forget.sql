create or replace function postrider.dlq_entry_forget() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    delete from postrider.dlq_redrive r using removed d where r.dlq_entry_uuid = d.dlq_entry_uuid and r.outcome is not null;
    delete from postrider.dlq_comment c using removed d where c.dlq_entry_uuid = d.dlq_entry_uuid;
    return null;
end $$;
comment on function postrider.dlq_entry_forget() is
'Removes the redrives of purged investigations, and what people wrote about them. A redrive that is on its way stays until it ended, because its operation waits for that.';
revoke all on function postrider.dlq_entry_forget() from public;

create or replace trigger dlq_entry_forget after delete on postrider.dlq_entry
referencing old table as removed for each statement execute function postrider.dlq_entry_forget();
comment on trigger dlq_entry_forget on postrider.dlq_entry is 'Redrives and comments stay as long as their investigation.';
