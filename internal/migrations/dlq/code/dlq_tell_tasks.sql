-- The rows of a statement have no index: compared without a hash they cost their square, and who changes many switches
-- hashes off for what does have one.
create or replace function postrider.dlq_tell_tasks() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_hashjoin = on as $$
declare
    opened uuid[];
    closed uuid[];
begin
    if tg_op = 'UPDATE' then
        select array_agg(a.dlq_entry_uuid) filter (where a.resolution_status = 'pending'),
               array_agg(a.dlq_entry_uuid) filter (where a.resolution_status <> 'pending')
        into opened, closed
        from added a join removed r using (dlq_entry_uuid)
        where (a.resolution_status = 'pending') <> (r.resolution_status = 'pending');
    else
        select array_agg(r.dlq_entry_uuid) into closed from removed r where r.resolution_status = 'pending';
    end if;
    if closed is not null then
        perform postrider.task_investigations_changed(closed, false);
    end if;
    if opened is not null then
        perform postrider.task_investigations_changed(opened, true);
    end if;
    return null;
end $$;
comment on function postrider.dlq_tell_tasks() is
'Tells tasks which investigations were closed, purged or are pending again. Tasks pick the investigations that are about them.';
revoke all on function postrider.dlq_tell_tasks() from public;
