create or replace function postrider.dlq_change_group(p_group uuid, p_note text, p_assignee text, p_state text,
    p_muted_until timestamptz) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    was text;
begin
    select postrider.dlq_group_state(g.state, g.muted_until, g.created_at, g.pending) into was from postrider.dlq_group g where g.dlq_group_uuid = p_group;
    -- What ends or begins a mute is no mere note.
    perform postrider.access_owe((case when was <> 'muted' and p_state = 'muted' then '{group.mute}' when was = 'muted' and p_state <> 'muted' then '{group.unmute}'
                                       else '{group.note, group.assign, group.mute, group.unmute}' end)::text[], 'group', array[p_group::text]);
    update postrider.dlq_group g
    set note = case when p_note is null then g.note else nullif(p_note, '') end,
        assignee = case when p_assignee is null then g.assignee else nullif(p_assignee, '') end,
        state = p_state, muted_until = p_muted_until, updated_at = now()
    where g.dlq_group_uuid = p_group;
end $$;
comment on function postrider.dlq_change_group(uuid, text, text, text, timestamptz) is
'Changes a group. A null note or assignee stays; an empty one is removed. Only triggers change the counters.';
revoke all on function postrider.dlq_change_group(uuid, text, text, text, timestamptz) from public;
