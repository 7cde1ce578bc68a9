create or replace function postrider.task_steps_changed(p_task_uuid uuid, p_now timestamptz, p_progress boolean) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_kind  text;
    v_ready timestamptz;
    v_from  timestamptz;
begin
    select st.kind into v_kind
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_machine_states st on st.state_machine_id = n.state_machine_id and st.state = k.state
     where k.task_uuid = p_task_uuid;
    v_ready := postrider.task_ready_at(p_task_uuid, v_kind);
    -- The clock of a stay: work that goes on starts it again, and while a task waits for a time it has not begun.
    v_from := case when v_kind = 'active' and p_progress then p_now
                   when v_kind = 'waiting' and v_ready > p_now then v_ready end;
    update postrider.tasker_tasks k
       set updated_at = p_now, ready_at = v_ready, stay_from = coalesce(v_from, k.stay_from),
           stale_flagged_at = case when v_from is null then k.stale_flagged_at end,
           stale_rule = case when v_from is null then k.stale_rule else '' end,
           stale_until = case when v_from is null then k.stale_until end
     where k.task_uuid = p_task_uuid;
end $$;
comment on function postrider.task_steps_changed(uuid, timestamptz, boolean) is
'Internal. Brings a task up to date after steps of it changed: ready_at, and with p_progress (a step was started or done) the clock of its stay in an active state, which ends its flag. The lifetime goes on. The caller holds the task''s row lock.';
revoke all on function postrider.task_steps_changed(uuid, timestamptz, boolean) from public;
