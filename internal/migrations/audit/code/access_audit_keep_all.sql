create or replace trigger access_audit_keep_all before truncate on postrider.access_audit
for each statement execute function postrider.access_audit_keep();
comment on trigger access_audit_keep_all on postrider.access_audit is 'The audit log is only added to.';
