create or replace function postrider.outbox_new_identity(p_name text, p_desk text default null) returns postrider.outbox_source
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    s postrider.outbox_source;
begin
    if p_name is null then
        raise exception using errcode = '22004', message = 'postrider: the name of the source is null';
    end if;
    select * into strict s from postrider.outbox_source for update;
    if coalesce(s.name, 'main') = p_name then
        raise exception using errcode = '22023', message = format('postrider: this outbox is the source %s already', p_name),
            hint = 'A new identity has a name that no source had before.';
    end if;
    update postrider.outbox_source o set source_uuid = gen_random_uuid(), name = p_name, desk = p_desk, installed_at = now() returning * into strict s;
    return s;
end $$;
comment on function postrider.outbox_new_identity(text, text) is
'Makes a copy of a database an outbox of its own: draws a new uuid, gives it a new name and the desk that it obeys (null for none yet), and returns the row of outbox_source. For the owner of the schema, and for the copy alone: letters and commands of the outbox that it was copied from are not its own any more.';
revoke all on function postrider.outbox_new_identity(text, text) from public;
