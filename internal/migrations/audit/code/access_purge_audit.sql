create or replace function postrider.access_purge_audit(p_keep interval, p_rows integer) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
    gone integer;
begin
    if p_keep < interval '30 days' then
        raise exception using errcode = '22023', message = format('postrider: rows of the audit log are to stay %s', p_keep),
            hint = 'They stay 30 days at least.';
    end if;
    -- Not by a SET of the function: to create one with a parameter of our own takes a superuser.
    perform set_config('postrider.audit_retention', 'on', true);
    delete from postrider.access_audit a
    where a.access_audit_id = any (array(
        select o.access_audit_id from postrider.access_audit o where o.at < now() - p_keep order by o.at, o.access_audit_id limit p_rows));
    get diagnostics gone = row_count;
    perform set_config('postrider.audit_retention', '', true);
    return gone;
end $$;
comment on function postrider.access_purge_audit(interval, integer) is
'Removes the oldest rows of the audit log that are older than the first argument, which is 30 days at least: as many as the second argument says at most. It returns how many.';
revoke all on function postrider.access_purge_audit(interval, integer) from public;
