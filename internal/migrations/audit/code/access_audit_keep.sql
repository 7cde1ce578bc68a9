create or replace function postrider.access_audit_keep() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and old.at < now() - interval '30 days' and current_setting('postrider.audit_retention', true) = 'on' then
        return old;
    end if;
    raise exception using errcode = '42501', message = 'postrider: the audit log is only added to',
        hint = 'Retention (access_purge_audit) removes rows that are old enough.';
end $$;
comment on function postrider.access_audit_keep() is
'Refuses to change or remove what was written to the audit log. Only retention (access_purge_audit) removes rows, and none that is younger than 30 days.';

create or replace trigger access_audit_keep before update or delete on postrider.access_audit
for each row execute function postrider.access_audit_keep();
comment on trigger access_audit_keep on postrider.access_audit is 'The audit log is only added to, and shortened by retention.';
