create or replace function postrider.dlq_move_entries(p_entries uuid[], p_into uuid) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    moved bigint;
begin
    -- The time of the last change stays: a watch that follows it would count closed investigations twice.
    update postrider.dlq_entry e set dlq_group_uuid = p_into from unnest(p_entries) as m(id) where e.dlq_entry_uuid = m.id;
    get diagnostics moved = row_count;
    update postrider.dlq_group g
    set last_entry_uuid = (select e.dlq_entry_uuid from postrider.dlq_entry e
                           where e.dlq_entry_uuid = g.last_entry_uuid or e.dlq_entry_uuid = any (p_entries)
                           order by e.created_at desc, e.dlq_entry_uuid desc limit 1),
        first_seen_at = least(g.first_seen_at, (select min(e.dlq_timestamp) from postrider.dlq_entry e where e.dlq_entry_uuid = any (p_entries)))
    where g.dlq_group_uuid = p_into and moved > 0;
    return moved;
end $$;
comment on function postrider.dlq_move_entries(uuid[], uuid) is
'Internal. Puts investigations, which the caller has locked, into another group, and returns how many. Triggers count them there.';
revoke all on function postrider.dlq_move_entries(uuid[], uuid) from public;
