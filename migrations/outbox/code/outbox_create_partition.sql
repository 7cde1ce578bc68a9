create or replace function postrider.outbox_create_partition(from_id bigint, to_id bigint) returns void
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
revoke all on function postrider.outbox_create_partition(bigint, bigint) from public;
