create or replace function postrider.dlq_recount() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    lock table postrider.dlq_entry in share row exclusive mode;
    delete from postrider.dlq_count;
    insert into postrider.dlq_count (dlq_group_uuid, dlq_reason, subject_type, resolution_status, entries)
    select dlq_group_uuid, dlq_reason, subject_type, resolution_status, count(*) from postrider.dlq_entry group by 1, 2, 3, 4;
    delete from postrider.dlq_hour;
    insert into postrider.dlq_hour (dlq_group_uuid, hour, opened)
    select dlq_group_uuid, date_trunc('hour', created_at, 'UTC'), count(*) from postrider.dlq_entry group by 1, 2
    order by 2, 1; -- as they come to be, so that a time is in few pages
    update postrider.dlq_group g
    set entries = n.entries, total = greatest(g.total, n.entries), pending = n.pending, occurrences = n.occurrences, last_entry_uuid = n.last_entry,
        updated_at = now(), resolved_through = case when n.pending = 0 then coalesce(g.resolved_through, now()) else g.resolved_through end,
        state = case when g.state = 'muted' then 'muted' when n.pending = 0 then 'resolved' when g.state = 'resolved' then 'ongoing' else g.state end
    from (select o.dlq_group_uuid, count(e.dlq_entry_uuid) as entries, coalesce(sum(e.occurrences), 0) as occurrences,
                 count(*) filter (where e.resolution_status = 'pending') as pending,
                 (array_agg(e.dlq_entry_uuid order by e.created_at desc,
                     e.dlq_entry_uuid desc) filter (where e.dlq_entry_uuid is not null))[1] as last_entry
          from postrider.dlq_group o left join postrider.dlq_entry e on e.dlq_group_uuid = o.dlq_group_uuid
          group by o.dlq_group_uuid) n
    where g.dlq_group_uuid = n.dlq_group_uuid;
end $$;
comment on function postrider.dlq_recount() is 'Counts all investigations anew. Nothing writes them meanwhile.';
revoke all on function postrider.dlq_recount() from public;
