create or replace function postrider.outbox_hand_over_partition(part text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    step text;
begin
    for step in
        select format('alter table postrider.%I owner to %I', part, r.rolname)
        from pg_class t join pg_roles r on r.oid = t.relowner join pg_class p on p.relowner <> t.relowner
        where t.oid = 'postrider.outbox_event'::regclass and p.oid = format('postrider.%I', part)::regclass
        union all
        select format('grant select on postrider.%I to %s', part, coalesce((select quote_ident(r.rolname) from pg_roles r where r.oid = a.grantee), 'public'))
        from pg_class t, aclexplode(t.relacl) a
        where t.oid = 'postrider.outbox_event'::regclass and a.privilege_type = 'SELECT' and a.grantee <> t.relowner
    loop
        execute step;
    end loop;
end $$;
comment on function postrider.outbox_hand_over_partition(text) is
'Gives a new partition to the owner of outbox_event, whose rights outbox_drop_partition has, and lets read it whoever may read outbox_event: the purge of published events reads the default partition by its name. Everything else goes through outbox_event. For the functions here.';
revoke all on function postrider.outbox_hand_over_partition(text) from public;
