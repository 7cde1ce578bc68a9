-- A redrive is an act, too, and changes no investigation.
create or replace function postrider.dlq_group_redriven() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    acted uuid[];
begin
    select array_agg(distinct e.dlq_group_uuid) into acted
    from added a
    cross join lateral (select e.dlq_group_uuid from postrider.dlq_entry e where e.dlq_entry_uuid = a.dlq_entry_uuid limit 1) e;
    -- In the order in which everybody locks groups.
    perform from postrider.dlq_group g where g.dlq_group_uuid = any (acted) and g.state = 'new' order by g.dlq_group_uuid for no key update;
    if found then
        update postrider.dlq_group g set state = 'ongoing', updated_at = now() where g.dlq_group_uuid = any (acted) and g.state = 'new';
    end if;
    return null;
end $$;
comment on function postrider.dlq_group_redriven() is 'If an investigation of a group is redriven, the group is no longer new.';
revoke all on function postrider.dlq_group_redriven() from public;
