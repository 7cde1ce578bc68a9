-- The code of the room postrider.room is there. Roles that had rights on dropped objects get them again, and the record
-- of the code names the files that are there now.
do $$
declare
    g record;
begin
    for g in
        select distinct x.kind, x.name, x.privilege, x.grantee, x.option
        from postrider.schema_code c,
             jsonb_to_recordset(c.grants) as x(kind text, name text, privilege text, grantee text, option boolean)
        where c.room = current_setting('postrider.room') and c.replaced_at is null
    loop
        if (case g.kind when 'table' then to_regclass(g.name)::oid else to_regprocedure(g.name)::oid end) is not null
           and (g.grantee = 'public' or to_regrole(g.grantee) is not null) then
            execute format('grant %s on %s %s to %s%s', g.privilege, g.kind, g.name, g.grantee,
                           case when g.option then ' with grant option' else '' end);
        end if;
    end loop;
    update postrider.schema_code c set replaced_at = now(), grants = '[]'
    where c.room = current_setting('postrider.room') and c.replaced_at is null;
    insert into postrider.schema_code as c (room, checksum, files)
    values (current_setting('postrider.room'), current_setting('postrider.code_checksum'), current_setting('postrider.code')::jsonb)
    on conflict on constraint schema_code_pkey do update
    set files = excluded.files, grants = '[]', applied_at = now(), replaced_at = null;
end
$$;
