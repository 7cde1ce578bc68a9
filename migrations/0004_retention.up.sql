-- Retention: what has been delivered goes after a while, in small batches, by a walk that needs no index
-- of its own. And vacuum settings for the hot tables beside outbox_event.

create table postrider.outbox_purge (
    kind           text primary key check (kind in ('published', 'dead_lettered', 'idempotency_key')),
    position       text,
    round_began_at timestamptz
);
comment on table postrider.outbox_purge is
'How far the purge of each kind of row has walked. Whoever purges holds the row''s lock for one batch, so only one does at a time, and a crash gives it back. Rows that must stay are walked over and looked at again in the next round, a day later.';
comment on column postrider.outbox_purge.kind is 'published: events that their topics acknowledged. dead_lettered: events whose investigation is closed. idempotency_key: keys of outbox_publish.';
comment on column postrider.outbox_purge.position is 'Where the next batch begins: after this id (published) or event id (dead_lettered), or at this block of the table (idempotency_key). Null is the beginning.';
comment on column postrider.outbox_purge.round_began_at is 'When the walk last began at the beginning.';
insert into postrider.outbox_purge (kind) values ('published'), ('dead_lettered'), ('idempotency_key');

-- The dead letter of a task that could not be delivered is recorded under its own id, and its investigation
-- is the task's.
create index dlq_letter_of_task on postrider.dlq_letter (event_id, episode) where episode is not null and letter_id like 'task:%';
comment on index postrider.dlq_letter_of_task is 'Letters about tasks that arrived as dead letters of an outbox event, by that event.';
create function postrider.dlq_event_closed(event_id uuid, episode integer) returns boolean
language sql stable parallel safe set search_path = pg_catalog, pg_temp as $$
    with letter as (
        select l.dlq_entry_uuid from postrider.dlq_letter l
         where l.letter_id = 'event:' || dlq_event_closed.event_id || ':' || dlq_event_closed.episode
        union all
        select l.dlq_entry_uuid from postrider.dlq_letter l
         where l.event_id = dlq_event_closed.event_id and l.episode = dlq_event_closed.episode and l.letter_id like 'task:%'
    )
    select exists (select from letter)
       and not exists (select from letter l join postrider.dlq_entry e using (dlq_entry_uuid) where e.resolution_status = 'pending')
       and not exists (select from postrider.dlq_entry e
                       where e.subject_type = 'event' and e.subject_id = dlq_event_closed.event_id::text
                         and e.resolution_status = 'pending')
$$;
comment on function postrider.dlq_event_closed(uuid, integer) is
'Whether nobody needs the outbox row of a dead-lettered event any more: the dead letter of this episode is recorded, and neither its investigation nor another of the event is pending. False when in doubt. This is how the purge of outbox events asks without knowing the tables of investigations.';

-- Vacuumed by count rather than by share, as outbox_event is. What they cost is what every claim pays.

-- Every claim looks at all 64 rows, which fit in one page; their low-water marks rise twice a second each.
-- Room on the page keeps the new versions there. Giving back a page at the end would lock the table.
alter table postrider.outbox_shard set (fillfactor = 50, vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
-- A row is inserted and deleted with every batch, hundreds a second, and every claim reads what is there.
alter table postrider.outbox_batch set (vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
-- Few rows that change with every probe; a storm of failing keys makes many that are soon gone. The time
-- of the next probe is indexed, so room on the page would save nothing.
alter table postrider.outbox_hold set (vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
-- returned_through moves with every batch that comes back and is not indexed, so room on the page keeps
-- the new versions there, with no new index entries.
alter table postrider.outbox_hold_shard set (fillfactor = 70, vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000);
-- Inserted once and removed a month later: by share, the first vacuum of a large table would come after
-- days of removing, and its free space with it.
alter table postrider.outbox_idempotency_key set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 1000000);

-- Partitions, for those who write so much that removing rows one by one costs too much. Nothing is
-- partitioned until `postrider outbox partition` is run.

create table postrider.outbox_partition (
    name       text primary key,
    from_id    bigint,
    to_id      bigint not null,
    settled_at timestamptz
);
comment on table postrider.outbox_partition is
'The partitions of outbox_event by range of id, without the default one; empty while the table is not partitioned.';
comment on column postrider.outbox_partition.name is 'Name of the table in the schema postrider.';
comment on column postrider.outbox_partition.from_id is 'Its first id; null for the table as it was before, which begins at the beginning.';
comment on column postrider.outbox_partition.to_id is 'The first id after it.';
comment on column postrider.outbox_partition.settled_at is 'Since when nothing in it is known to wait, and nothing can be added to it; null until then. Retention counts from here.';

create function postrider.outbox_hand_over_partition(part text) returns void
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

create function postrider.outbox_create_partition(from_id bigint, to_id bigint) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    part    text := 'outbox_event_p' || from_id;
    options text;
begin
    execute format('create table postrider.%I (like postrider.outbox_event including defaults including generated
                    including constraints including storage including compression including comments)', part);
    execute format('comment on table postrider.%I is %L', part, format('Events from id %s to %s; see outbox_partition.', from_id, to_id - 1));
    -- Settings of storage stand at each partition: those of the last one.
    select string_agg(o, ', ') into options
    from (select unnest(c.reloptions) o from pg_class c join pg_inherits i on i.inhrelid = c.oid
          where i.inhparent = 'postrider.outbox_event'::regclass and c.relname = 'outbox_event_default') given;
    if options is not null then
        execute format('alter table postrider.%I set (%s)', part, options);
    end if;
    -- Attached rather than created as a partition: that would lock the whole outbox, this only the default
    -- partition and what nobody knows yet.
    execute format('alter table postrider.outbox_event attach partition postrider.%I for values from (%s) to (%s)', part, from_id, to_id);
    perform postrider.outbox_hand_over_partition(part);
    insert into postrider.outbox_partition (name, from_id, to_id) values (part, from_id, to_id);
end $$;
comment on function postrider.outbox_create_partition(bigint, bigint) is
'Adds a partition for the ids from the first to before the second. For the functions here.';

create function postrider.outbox_partition_prepare(gap bigint default 1000000000) returns bigint
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

create function postrider.outbox_partition_convert(partition_rows bigint) returns void
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

create function postrider.outbox_add_partitions(ahead integer default 2) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms' as $$
declare
    newest postrider.outbox_partition;
    last   bigint;
    rows   bigint;
    start  bigint;
    added  integer := 0;
begin
    perform from postrider.outbox_purge p where p.kind = 'published' for update skip locked;
    if not found then
        return 0; -- somebody else is at it
    end if;
    select p.* into newest from postrider.outbox_partition p where p.from_id is not null order by p.to_id desc limit 1;
    if not found then
        return 0; -- not partitioned
    end if;
    last := coalesce(pg_sequence_last_value('postrider.outbox_event_id_seq'), 0);
    rows := newest.to_id - newest.from_id;
    start := newest.to_id;
    if start - last < rows / 2 then
        -- Writers are, or will be in a moment, where it would begin. A row that is on its way to the default
        -- partition while that id gets a partition of its own is refused. So the new one begins well beyond
        -- them, and the ids until there are the default partition's.
        start := last + rows;
    end if;
    while start - last < ahead * rows + 1 and added < ahead loop
        begin
            perform postrider.outbox_create_partition(start, start + rows);
        exception when check_violation then
            return added; -- they came there just now; the next call begins further on
        end;
        start := start + rows;
        added := added + 1;
    end loop;
    return added;
end $$;
comment on function postrider.outbox_add_partitions(integer) is
'Adds partitions of the size of the newest one until so many lie ahead of the writers; returns how many it added. Does nothing while outbox_event is not partitioned.';

create function postrider.outbox_partition_settled(part text) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    settled boolean;
begin
    execute format('select not exists (select from postrider.%1$I where state = ''pending'')
                       and not exists (select from postrider.%1$I where state = ''scheduled'')
                       and not exists (select from postrider.%1$I where state = ''parked'')
                       and not exists (select from postrider.%1$I where state = ''exhausted'')', part) into settled;
    return settled;
end $$;
comment on function postrider.outbox_partition_settled(text) is 'Whether no event of a partition waits, as far as is committed.';

create function postrider.outbox_drop_partition(keep interval, dry_run boolean default false) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms' as $$
declare
    part    postrider.outbox_partition;
    water   bigint;
    columns text;
    kept    bigint;
    due     integer := 0;
begin
    if not dry_run then
        perform from postrider.outbox_purge p where p.kind = 'published' for update skip locked;
        if not found then
            return 0; -- somebody else is at it
        end if;
    end if;
    -- No event up to here can still become visible; see outbox_shard.low_water.
    select min(s.low_water) into water from postrider.outbox_shard s;
    for part in select p.* from postrider.outbox_partition p where p.to_id - 1 <= water order by p.to_id loop
        if not postrider.outbox_partition_settled(part.name) then
            if part.settled_at is not null and not dry_run then
                update postrider.outbox_partition p set settled_at = null where p.name = part.name;
            end if;
            continue;
        end if;
        if part.settled_at is null then
            if not dry_run then
                update postrider.outbox_partition p set settled_at = clock_timestamp() where p.name = part.name;
            end if;
            continue;
        end if;
        continue when part.settled_at > clock_timestamp() - keep;
        -- Dead-lettered events have a retention of their own. Many of them would keep writers waiting while
        -- they are moved, so a partition with many stays until most are gone.
        execute format('select count(*) from (select from postrider.%I where state = ''dead_lettered'' limit 1001) d', part.name) into kept;
        continue when kept > 1000;
        due := due + 1;
        continue when dry_run;

        -- Only its own lock: the partitions' come after it, in the order in which everybody takes them.
        lock table only postrider.outbox_event in access exclusive mode;
        -- Nobody is in the table now. What was seen before may have changed.
        select min(s.low_water) into water from postrider.outbox_shard s;
        if part.to_id - 1 > water or not postrider.outbox_partition_settled(part.name) then
            update postrider.outbox_partition p set settled_at = null where p.name = part.name;
            return 0;
        end if;
        execute format('alter table postrider.outbox_event detach partition postrider.%I', part.name);
        select string_agg(quote_ident(a.attname), ', ' order by a.attnum) into columns
        from pg_attribute a
        where a.attrelid = 'postrider.outbox_event'::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = '';
        -- Their ids have no partition any more, so they go to the default one.
        execute format('insert into postrider.outbox_event (%1$s) overriding system value
                        select %1$s from postrider.%2$I where state = ''dead_lettered''', columns, part.name);
        execute format('drop table postrider.%I', part.name);
        delete from postrider.outbox_partition p where p.name = part.name;
        return 1; -- one at a time, so that the lock is short
    end loop;
    return due;
end $$;
comment on function postrider.outbox_drop_partition(interval, boolean) is
'Drops the oldest partition of outbox_event of which nothing has waited for as long as is given, and returns 1; 0 when there is none. Dead-lettered events of it are kept, in the default partition. A dry run changes nothing and counts the partitions. Waits half a second for its lock at most.';

revoke all on function postrider.outbox_hand_over_partition(text), postrider.outbox_create_partition(bigint, bigint), postrider.outbox_partition_prepare(bigint),
    postrider.outbox_partition_convert(bigint), postrider.outbox_add_partitions(integer),
    postrider.outbox_partition_settled(text), postrider.outbox_drop_partition(interval, boolean) from public;
