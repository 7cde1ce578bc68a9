create or replace function postrider.outbox_partition_prepare(gap bigint default 1000000000) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    events    regclass := 'postrider.outbox_event';
    obstacles text;
    bound     bigint;
begin
    if gap is null or gap < 0 then
        raise exception using errcode = '22023', message = format('postrider: gap is %s, it must not be negative', coalesce(gap::text, 'null'));
    end if;
    lock table postrider.outbox_event in access exclusive mode;
    if (select c.relkind from pg_class c where c.oid = events) = 'p' then
        raise exception using errcode = '55000', message = 'postrider: outbox_event is partitioned already';
    end if;
    -- They belong to the table as it is, and would stay behind with its old rows.
    select string_agg(o.what, ', ' order by o.what) into obstacles from (
        select 'foreign key ' || quote_ident(c.conname) || ' of ' || c.conrelid::regclass as what
        from pg_constraint c where c.contype = 'f' and (c.confrelid = events or c.conrelid = events)
        union all
        select 'trigger ' || quote_ident(t.tgname) from pg_trigger t
        where t.tgrelid = events and not t.tgisinternal and t.tgname <> 'outbox_event_ring' -- our own moves with it
        union all
        select 'policy ' || quote_ident(p.polname) from pg_policy p where p.polrelid = events
        union all
        select 'publication ' || quote_ident(p.pubname) from pg_publication_rel r join pg_publication p on p.oid = r.prpubid where r.prrelid = events
        union all
        select distinct 'view ' || v.oid::regclass
        from pg_depend d join pg_rewrite r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass join pg_class v on v.oid = r.ev_class
        where d.refclassid = 'pg_class'::regclass and d.refobjid = events and v.oid not in (events, 'postrider.v_outbox_event'::regclass)
        union all
        select 'table ' || i.inhrelid::regclass || ', which inherits from it' from pg_inherits i where i.inhparent = events) o;
    if obstacles is not null then
        raise exception using errcode = '55000', message = 'postrider: outbox_event cannot be partitioned while there is: ' || obstacles,
            hint = 'Remove it, partition the table, and make it again.';
    end if;
    bound := 1 + gap + greatest(
        coalesce(pg_sequence_last_value(pg_get_serial_sequence('postrider.outbox_event', 'id')::regclass), 0),
        coalesce((select max(e.id) from postrider.outbox_event e), 0));
    alter table postrider.outbox_event drop constraint if exists outbox_event_partition_bound;
    execute format('alter table postrider.outbox_event add constraint outbox_event_partition_bound check (id < %s) not valid', bound);
    return bound;
end $$;
comment on function postrider.outbox_partition_prepare(bigint) is
'First of three steps to partition outbox_event: promises that the ids there are end below a bound, which is returned. It leaves room for gap more ids, so that writers can go on meanwhile; ids will go on from the bound, and the gap is not used. The second step is: alter table postrider.outbox_event validate constraint outbox_event_partition_bound. The third is outbox_partition_convert. For the owner of the table.';
revoke all on function postrider.outbox_partition_prepare(bigint) from public;
