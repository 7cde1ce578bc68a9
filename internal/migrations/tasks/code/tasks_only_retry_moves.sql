create or replace function postrider.tasks_only_retry_moves(p_task_uuids uuid[]) returns table (task_uuid uuid, state text)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    select k.task_uuid, k.state
    from (select distinct i.id from unnest(p_task_uuids) i(id)) i
    join postrider.tasker_tasks k on k.task_uuid = i.id
    join postrider.tasker_named_tasks n using (named_task_uuid)
    join postrider.tasker_state_machines m using (state_machine_id)
    where k.state = coalesce(m.dead_letter_state, m.failed_state) and k.state = any (m.retryable_states)
    order by k.task_uuid
$$;
comment on function postrider.tasks_only_retry_moves(uuid[]) is
'For the desk: which of these tasks are in the dead-letter state of their machine (the failed one, of a machine without), from which retry_task brings them back. An event of theirs that is sent again does not.';
revoke all on function postrider.tasks_only_retry_moves(uuid[]) from public;
