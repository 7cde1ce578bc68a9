create or replace function postrider.dlq_entry_lock_only() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    -- The functions that change investigations run with the owner's rights.
    if not has_column_privilege(current_user, tg_relid, 'resolution_status', 'update') then
        raise exception using errcode = '42501', message = format('postrider: %s may lock investigations, and change them by functions alone', current_user),
            hint = 'postrider.dlq_change_entry writes into one, postrider.dlq_resolve_group closes the ones of a group.';
    end if;
    return null;
end $$;
comment on function postrider.dlq_entry_lock_only() is
'Refuses the update of investigations by a role that has the right to do so in one column alone: PostgreSQL wants that right for a lock of a row.';
revoke all on function postrider.dlq_entry_lock_only() from public;

create or replace trigger dlq_entry_lock_only before update on postrider.dlq_entry
for each statement execute function postrider.dlq_entry_lock_only();
comment on trigger dlq_entry_lock_only on postrider.dlq_entry is 'Operators lock investigations, and change them by functions alone.';
