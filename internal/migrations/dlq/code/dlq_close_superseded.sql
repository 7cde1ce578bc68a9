create or replace function postrider.dlq_close_superseded(p_entries uuid[], p_by text[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    closed uuid[];
    events bigint[];
begin
    with open as materialized ( -- locked in the order that every session keeps
        select e.dlq_entry_uuid, s.actor from (select * from unnest(p_entries, p_by) as s(id, actor) order by s.id) s
        cross join lateral (
            select e.dlq_entry_uuid from postrider.dlq_entry e
            where e.dlq_entry_uuid = s.id and e.resolution_status::text = 'pending' for no key update) e
    ), done as (
        update postrider.dlq_entry e
        set resolution_status = 'manually_resolved', resolution_timestamp = now(), updated_at = now(),
            resolution_notes = coalesce(e.resolution_notes || e'\n', '') || 'the task was retried',
            resolved_by = coalesce(o.actor, 'postrider')
        from open o
        where e.dlq_entry_uuid = o.dlq_entry_uuid
          and not exists (select from postrider.dlq_under_way(array[o.dlq_entry_uuid])) -- a redrive on its way has no outcome yet
        returning e.dlq_entry_uuid
    )
    select array_agg(d.dlq_entry_uuid) into closed from done d;
    if closed is null then
        return;
    end if;
    -- The event that starts the task anew has the key of the one before it, and would wait behind that.
    select array_agg(distinct l.outbox_id) into events
    from unnest(closed) w(id)
    cross join lateral (
        select l.outbox_id from postrider.dlq_letter l where l.dlq_entry_uuid = w.id and l.outbox_id is not null offset 0) l;
    if events is not null then
        perform postrider.outbox_let_keys_go(events);
    end if;
end $$;
comment on function postrider.dlq_close_superseded(uuid[], text[]) is
'For tasks: these investigations are about a task that was retried, by p_by. Closes the pending ones as manually_resolved, and lets the keys go that their events halt: the retry does the work again, and a redrive would do it twice. One with a redrive on its way stays pending.';
revoke all on function postrider.dlq_close_superseded(uuid[], text[]) from public;
