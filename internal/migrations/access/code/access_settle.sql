create or replace function postrider.access_settle() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    -- Of this transaction's time: what a restored log has may bear numbers that are yet to come. A clock is put back now and then.
    if not exists (select from postrider.access_audit a where a.at > now() - interval '1 minute' and a.transaction_id = new.transaction_id) then
        raise exception using errcode = '42501', message = 'postrider: what this transaction changed is not in the audit log',
            hint = 'The commands of postrider write it. A program that writes SQL inserts a row into postrider.access_audit in the same transaction.';
    end if;
    delete from postrider.access_due d where d.transaction_id = new.transaction_id;
    return null;
end $$;
comment on function postrider.access_settle() is 'Refuses to commit a transaction that owes the audit log a row.';
revoke all on function postrider.access_settle() from public;

drop trigger if exists access_settle on postrider.access_due;
create constraint trigger access_settle after insert on postrider.access_due deferrable initially deferred
for each row execute function postrider.access_settle();
comment on trigger access_settle on postrider.access_due is 'Asks when the transaction is committed.';
