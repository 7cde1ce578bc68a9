create or replace function postrider.dlq_resolve_group(p_group uuid, p_until timestamptz, p_limit integer, p_status text, p_notes text, p_by text)
returns setof uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    held    uuid[];
    closing uuid[];
begin
    if p_status is null or p_status = 'pending' then
        raise exception using errcode = '22023', message = 'postrider: the status must say what they came to, and pending does not';
    end if;
    -- The oldest, in the order of the group's index; locked in an order that purging keeps.
    with meant as (
        select e.dlq_entry_uuid from postrider.dlq_entry e
        where e.dlq_group_uuid = p_group and e.resolution_status = 'pending' and (e.created_at at time zone 'UTC') <= (p_until at time zone 'UTC')
          and (select r.outcome is null
                      or r.outcome = 'came_back' and (select true from postrider.dlq_letter b
                             where b.letter_id = 'event:' || r.event_id || ':' || (r.episode + 1) limit 1) is null
               from postrider.dlq_redrive r
               where r.dlq_entry_uuid = e.dlq_entry_uuid order by r.generation desc limit 1) is not true
        order by (e.created_at at time zone 'UTC'), e.dlq_entry_uuid limit p_limit
    ), locked as materialized (
        select e.dlq_entry_uuid from postrider.dlq_entry e join meant m using (dlq_entry_uuid)
        where e.resolution_status = 'pending' order by e.dlq_entry_uuid for no key update of e
    )
    select array_agg(l.dlq_entry_uuid) into held from locked l;
    -- With a snapshot taken after the locks: another session may have redriven one meanwhile.
    select array_agg(o.id) into closing
    from (select h.id from unnest(held) h(id) except select u.id from postrider.dlq_under_way(held) u(id)) o;
    if closing is null then
        return;
    end if;
    perform postrider.access_owe('{group.resolve}', 'group', array[p_group::text]);
    return query
    update postrider.dlq_entry e
    set resolution_status = p_status::postrider.dlq_resolution_status, resolution_timestamp = now(), updated_at = now(),
        resolution_notes = coalesce(nullif(p_notes, ''), e.resolution_notes), resolved_by = p_by
    from unnest(closing) as c(id) where e.dlq_entry_uuid = c.id
    returning e.dlq_entry_uuid;
end $$;
comment on function postrider.dlq_resolve_group(uuid, timestamptz, integer, text, text, text) is
'Closes the oldest pending investigations of a group that were opened until a time, and returns them. Investigations with a redrive on its way are left. The caller must release the keys that their events halt.';
revoke all on function postrider.dlq_resolve_group(uuid, timestamptz, integer, text, text, text) from public;
