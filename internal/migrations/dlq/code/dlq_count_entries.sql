-- The rows of a statement have no index: compared without a hash they cost their square, and who changes many switches
-- hashes off for what does have one.
create or replace function postrider.dlq_count_entries() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_hashjoin = on as $$
declare
    deltas  postrider.dlq_delta[];
    acted   uuid[];
    touched uuid[];
    locked  integer;
begin
    if tg_op = 'INSERT' then
        select array_agg(row(a.*)::postrider.dlq_delta) into deltas from (
            select dlq_group_uuid, dlq_reason, subject_type, resolution_status, date_trunc('hour', created_at, 'UTC'), count(*), count(*),
                   sum(occurrences), min(least(dlq_timestamp, last_occurred_at, now())), max(least(last_occurred_at, now())),
                   (array_agg(dlq_entry_uuid order by created_at desc, dlq_entry_uuid desc))[1]
            from added group by 1, 2, 3, 4, 5) a;
    elsif tg_op = 'DELETE' then
        select array_agg(row(r.*)::postrider.dlq_delta) into deltas from (
            select dlq_group_uuid, dlq_reason, subject_type, resolution_status, date_trunc('hour', created_at, 'UTC'), 0, -count(*),
                   -sum(occurrences), null::timestamptz, null::timestamptz, null::uuid
            from removed group by 1, 2, 3, 4, 5) r;
    else
        -- Most changes touch nothing that is counted.
        select array_agg(row(b.*)::postrider.dlq_delta) into deltas from (
            select c.dlq_group_uuid, c.dlq_reason, c.subject_type, c.resolution_status, date_trunc('hour', c.created_at, 'UTC'), 0,
                   sum(c.n), sum(c.n * c.occurrences), null::timestamptz, max(least(c.last_occurred_at, now())) filter (where c.n > 0),
                   null::uuid
            from (
                select 1 as n, a.dlq_group_uuid, a.dlq_reason, a.subject_type, a.resolution_status, a.created_at, a.occurrences, a.last_occurred_at
                from added a
                union all
                select -1, r.dlq_group_uuid, r.dlq_reason, r.subject_type, r.resolution_status, r.created_at, r.occurrences, r.last_occurred_at
                from removed r) c
            group by 1, 2, 3, 4, 5
            having sum(c.n) <> 0 or sum(c.n * c.occurrences) <> 0
                or max(c.last_occurred_at) filter (where c.n > 0) is distinct from max(c.last_occurred_at) filter (where c.n < 0)) b;
        select array_agg(distinct a.dlq_group_uuid) into acted
        from added a join removed r using (dlq_entry_uuid)
        where (a.resolution_status, a.resolution_notes, a.assignee, a.metadata) is distinct from
              (r.resolution_status, r.resolution_notes, r.assignee, r.metadata);
    end if;
    if deltas is null and acted is null then
        return null;
    end if;
    select array_agg(distinct t.id order by t.id) into touched
    from (select d.dlq_group_uuid from unnest(deltas) d
          union
          select g.dlq_group_uuid from postrider.dlq_group g where g.dlq_group_uuid = any (acted) and g.state = 'new') t(id);
    if touched is null then
        return null;
    end if;
    -- Everybody locks groups in this order, and looks at them after.
    perform from postrider.dlq_group g where g.dlq_group_uuid = any (touched) order by g.dlq_group_uuid for no key update;
    get diagnostics locked = row_count;
    if locked < cardinality(touched) then
        raise exception using errcode = '23503', message = 'postrider: an investigation names a group that does not exist',
            hint = 'Insert the group into dlq_group first, or leave dlq_group_uuid out.';
    end if;
    insert into postrider.dlq_count as c (dlq_group_uuid, dlq_reason, subject_type, resolution_status, entries)
    select d.dlq_group_uuid, d.dlq_reason, d.subject_type, d.resolution_status, sum(d.entries)
    from unnest(deltas) d group by 1, 2, 3, 4 having sum(d.entries) <> 0
    on conflict on constraint dlq_count_pkey do update set entries = c.entries + excluded.entries;
    insert into postrider.dlq_hour as h (dlq_group_uuid, hour, opened)
    select d.dlq_group_uuid, d.hour, sum(d.entries) from unnest(deltas) d group by 1, 2 having sum(d.entries) <> 0
    on conflict on constraint dlq_hour_pkey do update set opened = h.opened + excluded.opened;
    if tg_op <> 'INSERT' then
        delete from postrider.dlq_count c where c.dlq_group_uuid = any (touched) and c.entries = 0;
        delete from postrider.dlq_hour h where h.dlq_group_uuid = any (touched) and h.opened = 0;
    end if;
    update postrider.dlq_group g
    set total = greatest(g.total + n.opened, g.entries + n.entries), entries = g.entries + n.entries, pending = n.pending,
        occurrences = g.occurrences + n.occurrences,
        first_seen_at = least(g.first_seen_at, n.first_seen), last_seen_at = greatest(g.last_seen_at, n.last_seen),
        last_entry_uuid = n.last_entry, updated_at = now(),
        resolved_through = case when n.pending = 0 and n.was_open then clock_timestamp() else g.resolved_through end,
        muted_until = case when n.state = 'muted' then g.muted_until end,
        opened_at = case when n.pending > 0 and n.state = 'resolved' and n.last_seen > g.resolved_through then now() else g.opened_at end,
        state = case when n.state = 'muted' then 'muted'
                     when n.pending = 0 then 'resolved'
                     when n.state <> 'resolved' then case when g.dlq_group_uuid = any (acted) and n.state = 'new' then 'ongoing' else n.state end
                     when n.last_seen > g.resolved_through then 'regressed'
                     else 'ongoing' end
    from (
        select o.dlq_group_uuid, postrider.dlq_group_state(o.state, o.muted_until, o.created_at, o.pending) as state,
               o.pending > 0 or (o.state <> 'resolved' and o.state <> 'muted') as was_open, o.pending + coalesce(d.pending, 0) as pending,
               coalesce(d.opened, 0) as opened, coalesce(d.entries, 0) as entries, coalesce(d.occurrences, 0) as occurrences,
               d.first_seen, d.last_seen,
               case when tg_op = 'INSERT' then (
                        select e.dlq_entry_uuid from postrider.dlq_entry e
                        where e.dlq_entry_uuid = o.last_entry_uuid or e.dlq_entry_uuid = any (d.newest)
                        order by e.created_at desc, e.dlq_entry_uuid desc limit 1)
                    when exists (select from postrider.dlq_entry e
                                 where e.dlq_entry_uuid = o.last_entry_uuid and e.dlq_group_uuid = o.dlq_group_uuid) then o.last_entry_uuid
                    else (
                        select l.dlq_entry_uuid
                        from unnest(enum_range(null::postrider.dlq_resolution_status)) s,
                             lateral (select e.dlq_entry_uuid, e.created_at from postrider.dlq_entry e
                                      where e.dlq_group_uuid = o.dlq_group_uuid and e.resolution_status = s
                                      order by (e.created_at at time zone 'UTC') desc, e.dlq_entry_uuid desc limit 1) l
                        order by l.created_at desc, l.dlq_entry_uuid desc limit 1) end as last_entry
        from postrider.dlq_group o
        left join (select d.dlq_group_uuid, sum(d.opened) as opened, sum(d.entries) as entries, sum(d.occurrences) as occurrences,
                          sum(d.entries) filter (where d.resolution_status = 'pending') as pending,
                          min(d.first_seen) as first_seen, max(d.last_seen) as last_seen,
                          array_agg(d.newest) filter (where d.newest is not null) as newest
                   from unnest(deltas) d group by 1) d on d.dlq_group_uuid = o.dlq_group_uuid
        where o.dlq_group_uuid = any (touched)) n
    where g.dlq_group_uuid = n.dlq_group_uuid;
    return null;
end $$;
comment on function postrider.dlq_count_entries() is
'Keeps the counters and states of groups, once per statement. It locks the groups in the order of their uuids.';
revoke all on function postrider.dlq_count_entries() from public;
