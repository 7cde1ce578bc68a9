-- Makes way in the room postrider.room: for a migration, which may change what views show, its views go; for the code
-- whose files are postrider.code, all that it has. Triggers stay, and with them their functions, which are replaced:
-- dropping one takes its table away from everybody. What others may do with what goes is noted, so that they get it again.
do $$
declare
    code      text[] := array(select jsonb_object_keys(current_setting('postrider.code')::jsonb));
    present   text[];
    rights    jsonb;
    views     text;
    functions text;
    t         record;
begin
    select array(select jsonb_object_keys(c.files)) into present from postrider.schema_code c
    where c.room = current_setting('postrider.room') and c.replaced_at is null for update;
    if not found then
        return;
    end if;
    select coalesce(jsonb_agg(jsonb_build_object('kind', o.kind, 'name', o.name, 'privilege', a.privilege_type,
               'grantee', case a.grantee when 0 then 'public' else quote_ident(r.rolname) end, 'option', a.is_grantable)), '[]')
    into rights
    from (select 'table' as kind, c.oid::regclass::text as name, c.relacl as acl, c.relowner as owner
          from pg_class c where c.relnamespace = 'postrider'::regnamespace and c.relkind = 'v' and c.relname = any (present)
          union all
          select 'function', p.oid::regprocedure::text, p.proacl, p.proowner
          from pg_proc p where p.pronamespace = 'postrider'::regnamespace and p.proname = any (present) and code <> '{}') o
    cross join aclexplode(o.acl) a
    left join pg_roles r on r.oid = a.grantee
    where a.grantee <> o.owner and (a.grantee <> 0 or o.kind = 'table'); -- whether a function is for all its file says
    update postrider.schema_code c set grants = c.grants || rights
    where c.room = current_setting('postrider.room') and c.replaced_at is null;

    -- All in one statement, so that one may need another.
    select string_agg(c.oid::regclass::text, ', ') into views
    from pg_class c where c.relnamespace = 'postrider'::regnamespace and c.relkind = 'v' and c.relname = any (present);
    if views is not null then
        execute 'drop view ' || views;
    end if;
    if code = '{}' then
        return;
    end if;
    for t in select g.tgname, g.tgrelid::regclass as of
             from pg_trigger g join pg_class c on c.oid = g.tgrelid
             where c.relnamespace = 'postrider'::regnamespace and not g.tgisinternal and g.tgparentid = 0
               and g.tgname = any (present) and g.tgname <> all (code) loop
        execute format('drop trigger %I on %s', t.tgname, t.of);
    end loop;
    select string_agg(p.oid::regprocedure::text, ', ') into functions
    from pg_proc p
    where p.pronamespace = 'postrider'::regnamespace and p.proname = any (present)
      and (p.prorettype <> 'trigger'::regtype or p.proname <> all (code));
    if functions is not null then
        execute 'drop function ' || functions;
    end if;
end
$$;
