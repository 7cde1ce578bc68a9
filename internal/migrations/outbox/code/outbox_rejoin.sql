create or replace function postrider.outbox_rejoin(p_name text, p_actor text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    s postrider.outbox_source;
begin
    select * into strict s from postrider.outbox_source for update;
    if s.name is distinct from p_name then
        raise exception using errcode = '55000', message = format('postrider: this outbox is the source %s and not %s', coalesce(s.name, 'main'), p_name);
    end if;
    if s.place is not distinct from postrider.outbox_place() then
        return false;
    end if;
    update postrider.outbox_source o set place = postrider.outbox_place();
    perform postrider.access_add_audit(p_actor, 'source.rejoin', 'source', p_name, jsonb_build_object('was', s.place, 'is', postrider.outbox_place()));
    return true;
end $$;
comment on function postrider.outbox_rejoin(text, text) is
'Says that this database is the source of this name now, although it is another database than the one that was named: it was moved, and the old one will not come back. Returns whether that was not said before. A copy beside its original takes outbox_new_identity instead.';
revoke all on function postrider.outbox_rejoin(text, text) from public;
