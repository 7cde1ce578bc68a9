create or replace function postrider.tasks_archived(p_task_uuids uuid[]) returns table (task_uuid uuid, state text, archived_at timestamptz, in_archive boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    select k.task_uuid, k.state, k.state_entered_at, false
    from (select distinct i.id from unnest(p_task_uuids) i(id)) i
    join postrider.tasker_tasks k on k.task_uuid = i.id
    join postrider.tasker_named_tasks n using (named_task_uuid)
    join postrider.tasker_state_machines m using (state_machine_id)
    where k.state = m.archived_state
    union all
    select a.task_uuid, a.state, a.archived_at, true
    from (select distinct i.id from unnest(p_task_uuids) i(id)) i
    join postrider.tasker_tasks_archive a on a.task_uuid = i.id
$$;
comment on function postrider.tasks_archived(uuid[]) is
'For the desk: which of these tasks are in the archived state of their machine, or in the archive (in_archive), and since when. Neither is retried.';
revoke all on function postrider.tasks_archived(uuid[]) from public;
