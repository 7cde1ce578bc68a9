create or replace function postrider.archive_on_read(p_task_uuid uuid, p_archive_after interval default '7 days') returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_archived text;
begin
    if current_setting('transaction_read_only') = 'on' then
        return false;
    end if;
    -- Asked without a lock first: most tasks that are read are not to be archived.
    select m.archived_state into v_archived
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid and k.state = coalesce(m.dead_letter_state, m.failed_state) and m.archived_state is not null
       and k.updated_at < now() - p_archive_after;
    if not found then
        return false;
    end if;
    perform from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
     where k.task_uuid = p_task_uuid and k.state = coalesce(m.dead_letter_state, m.failed_state) and k.updated_at < now() - p_archive_after
       for update of k skip locked;
    if not found then
        return false;
    end if;
    perform postrider.task_move(p_task_uuid, v_archived, jsonb_build_object('actor', 'postrider', 'reason', 'archived_on_read'));
    return true;
end $$;
comment on function postrider.archive_on_read(uuid, interval) is
'Moves a task to the archived state of its machine if it has been in the dead-letter state (the failed one, of a machine without) without a change for p_archive_after, 7 days by default, and the machine has both; returns whether it did. A pending investigation stays open and keeps the task out of the archive''s tables, but not out of that state. It waits for no lock, and does nothing in a read-only transaction.';
revoke all on function postrider.archive_on_read(uuid, interval) from public;
