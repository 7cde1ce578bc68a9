create or replace function postrider.outbox_add_partitions(ahead integer default 2) returns integer
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
revoke all on function postrider.outbox_add_partitions(integer) from public;
