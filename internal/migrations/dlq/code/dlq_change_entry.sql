create or replace function postrider.dlq_change_entry(
    p_entry uuid, p_status text, p_notes text, p_resolved_by text, p_metadata jsonb, p_assignee text, p_actor text)
returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    stands text;
    why    text;
begin
    select e.resolution_status::text into stands from postrider.dlq_entry e where e.dlq_entry_uuid = p_entry for no key update;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no investigation %s', coalesce(p_entry::text, 'null'));
    end if;
    if p_status is not null and stands <> 'pending' then
        why := format('it is %s already, and a closed one stays as it is; when the same comes back, a new one is opened', stands);
    elsif p_status = 'pending' then
        why := 'pending is where it stands, and no outcome';
    elsif p_status is not null and exists (select from postrider.dlq_under_way(array[p_entry])) then
        why := 'a redrive of it is on its way, and its outcome is unknown';
    end if;
    if why is not null then
        raise exception using errcode = '55000', message = format('postrider: investigation %s cannot be closed', p_entry), detail = why;
    end if;
    perform postrider.access_owe(array[case when p_status is null then 'dlq.note' else 'dlq.resolve' end], 'entry', array[p_entry::text]);
    -- Closing notes who did it: the caller, unless p_resolved_by names another, or another was named before.
    update postrider.dlq_entry e
    set resolution_status = coalesce(p_status::postrider.dlq_resolution_status, e.resolution_status),
        resolution_timestamp = case when p_status is not null then now() else e.resolution_timestamp end,
        resolution_notes = coalesce(p_notes, e.resolution_notes),
        resolved_by = coalesce(p_resolved_by, e.resolved_by, case when p_status is not null then p_actor end),
        metadata = case when coalesce(p_metadata, 'null') = 'null' then e.metadata else nullif(p_metadata, '{}') end,
        assignee = case when p_assignee is null then e.assignee else nullif(p_assignee, '') end,
        updated_at = now()
    where e.dlq_entry_uuid = p_entry;
end $$;
comment on function postrider.dlq_change_entry(uuid, text, text, text, jsonb, text, text) is
'Writes into an investigation. If a status is given, closes it; it must then be pending, with no redrive on its way. A null, and metadata of JSON null, changes nothing; an empty object as metadata and an empty assignee remove the stored ones. The caller must release the keys that its events halt.';
revoke all on function postrider.dlq_change_entry(uuid, text, text, text, jsonb, text, text) from public;
