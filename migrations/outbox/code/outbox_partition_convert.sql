create or replace function postrider.outbox_partition_convert(partition_rows bigint) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    bound    bigint;
    owner    text;
    comments text;
    options  text;
    view_def text;
    later    text[];
    c        record;
    step     text;
begin
    if partition_rows is null or partition_rows < 1 then
        raise exception using errcode = '22023', message = format('postrider: partition_rows is %s, it must be positive', coalesce(partition_rows::text, 'null'));
    end if;
    lock table postrider.outbox_event in access exclusive mode;
    select (regexp_match(pg_get_constraintdef(k.oid), 'id < ''?(\d+)'))[1]::bigint into bound
    from pg_constraint k
    where k.conrelid = 'postrider.outbox_event'::regclass and k.conname = 'outbox_event_partition_bound' and k.convalidated;
    if bound is null then
        raise exception using errcode = '55000', message = 'postrider: outbox_event is not prepared to be partitioned',
            hint = 'Run outbox_partition_prepare first, and validate the constraint outbox_event_partition_bound.';
    end if;

    -- What the new table takes over, to be done again when it is there.
    select quote_ident(r.rolname), obj_description(t.oid, 'pg_class'), array_to_string(t.reloptions, ', ') into owner, comments, options
    from pg_class t join pg_roles r on r.oid = t.relowner where t.oid = 'postrider.outbox_event'::regclass;
    view_def := pg_get_viewdef('postrider.v_outbox_event'::regclass);
    select array_agg(format('grant %s%s on %s to %s%s', g.privilege_type, g.columns, g.what,
                            coalesce((select quote_ident(r.rolname) from pg_roles r where r.oid = g.grantee), 'public'),
                            case when g.is_grantable then ' with grant option' else '' end)) into later
    from (select a.*, '' as columns, 'postrider.outbox_event' as what from pg_class t, aclexplode(t.relacl) a where t.oid = 'postrider.outbox_event'::regclass
          union all
          select a.*, format(' (%I)', n.attname), 'postrider.outbox_event' from pg_attribute n, aclexplode(n.attacl) a
          where n.attrelid = 'postrider.outbox_event'::regclass and not n.attisdropped
          union all
          select a.*, '', 'sequence postrider.outbox_event_id_seq' from pg_class t, aclexplode(t.relacl) a where t.oid = 'postrider.outbox_event_id_seq'::regclass) g;

    -- The doorbell of a later version, where it is there.
    for c in select pg_get_triggerdef(t.oid) as def, obj_description(t.oid, 'pg_trigger') as comment from pg_trigger t
             where t.tgrelid = 'postrider.outbox_event'::regclass and t.tgname = 'outbox_event_ring' loop
        later := coalesce(later, '{}') || c.def || format('comment on trigger outbox_event_ring on postrider.outbox_event is %L', c.comment);
        drop trigger outbox_event_ring on postrider.outbox_event;
    end loop;

    alter table postrider.outbox_event rename to outbox_event_p0;
    alter table postrider.outbox_event_p0 alter column id drop identity;
    create table postrider.outbox_event (
        like postrider.outbox_event_p0 including defaults including generated including constraints
        including storage including compression including comments
    ) partition by range (id);
    alter table postrider.outbox_event drop constraint outbox_event_partition_bound;
    execute format('comment on table postrider.outbox_event is %L', comments);
    execute format('alter table postrider.outbox_event owner to %s', owner);
    execute format('alter table postrider.outbox_event alter column id
                    add generated always as identity (sequence name postrider.outbox_event_id_seq start with %s)', bound);
    -- Constraints that do not speak of old rows must say so in both.
    for c in select k.conname, pg_get_constraintdef(k.oid) as def from pg_constraint k
             where k.conrelid = 'postrider.outbox_event_p0'::regclass and k.contype = 'c' and not k.convalidated loop
        execute format('alter table postrider.outbox_event drop constraint %I', c.conname);
        execute format('alter table postrider.outbox_event add constraint %I %s', c.conname, c.def);
    end loop;
    -- Indexes keep their names on the new table; those of the old one are found to be the same when it is attached.
    alter table postrider.outbox_event_p0 rename constraint outbox_event_pkey to outbox_event_p0_pkey;
    alter table postrider.outbox_event add constraint outbox_event_pkey primary key (id);
    for c in select i.indexrelid::regclass as name, t.relname, replace(pg_get_indexdef(i.indexrelid), 'postrider.outbox_event_p0 ', 'postrider.outbox_event ') as def,
                    obj_description(i.indexrelid, 'pg_class') as comment
             from pg_index i join pg_class t on t.oid = i.indexrelid
             where i.indrelid = 'postrider.outbox_event_p0'::regclass and not i.indisprimary loop
        execute format('alter index %s rename to %I', c.name, left(c.relname, 60) || '_p0');
        execute c.def;
        if c.comment is not null then
            execute format('comment on index postrider.%I is %L', c.relname, c.comment);
        end if;
    end loop;

    execute format('alter table postrider.outbox_event attach partition postrider.outbox_event_p0 for values from (minvalue) to (%s)', bound);
    alter table postrider.outbox_event_p0 drop constraint outbox_event_partition_bound;
    comment on table postrider.outbox_event_p0 is 'Events from before outbox_event was partitioned; see outbox_partition.';
    insert into postrider.outbox_partition (name, from_id, to_id) values ('outbox_event_p0', null, bound);
    create table postrider.outbox_event_default partition of postrider.outbox_event default;
    comment on table postrider.outbox_event_default is
        'Events for which there was no partition in time, so that no writer ever fails for want of one, and dead-lettered events that outlive their partition.';
    if options is not null then
        execute format('alter table postrider.outbox_event_default set (%s)', options);
    end if;
    foreach step in array coalesce(later, '{}') loop
        execute step;
    end loop;
    perform postrider.outbox_hand_over_partition('outbox_event_default');
    execute 'create or replace view postrider.v_outbox_event as ' || view_def;
    perform postrider.outbox_create_partition(bound, bound + partition_rows);
    perform postrider.outbox_create_partition(bound + partition_rows, bound + 2 * partition_rows);
end $$;
comment on function postrider.outbox_partition_convert(bigint) is
'Third step to partition outbox_event (see outbox_partition_prepare): makes it a table partitioned by id, partition_rows ids in each partition, with the table there was as the first one. It copies no rows and takes milliseconds once it has the table''s lock. For the owner of the table.';
revoke all on function postrider.outbox_partition_convert(bigint) from public;
