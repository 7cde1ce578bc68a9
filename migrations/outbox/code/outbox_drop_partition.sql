create or replace function postrider.outbox_drop_partition(keep interval, dry_run boolean default false) returns integer
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
revoke all on function postrider.outbox_drop_partition(interval, boolean) from public;
