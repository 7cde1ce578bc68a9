create or replace function postrider.access_audit_keep() returns trigger language plpgsql as $$
begin
    raise exception using errcode = '42501', message = 'postrider: the audit log is only added to';
end $$;
comment on function postrider.access_audit_keep() is 'Refuses to change or remove what was written to the audit log.';

create or replace trigger access_audit_keep before update or delete on postrider.access_audit
for each row execute function postrider.access_audit_keep();
comment on trigger access_audit_keep on postrider.access_audit is 'The audit log is only added to.';
