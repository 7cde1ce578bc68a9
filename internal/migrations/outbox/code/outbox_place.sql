create or replace function postrider.outbox_place() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select c.system_identifier || '/' || d.oid from pg_control_system() c, pg_database d where d.datname = current_database());
exception when insufficient_privilege then
    return null; -- the administrator took this right away
end $$;
comment on function postrider.outbox_place() is
'Which database this is: the identity of its server and its own number there. A copy made as a template, by pg_dump or by pg_upgrade has another one, a copy of the files has the same. Null where the server does not tell.';
revoke all on function postrider.outbox_place() from public;
