create or replace function postrider.task_end_cycle(p_task_uuid uuid, p_cycle text[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t         record;
    v_message text := format('the steps %s depend on each other in a cycle, so none of them can ever begin', array_to_string(p_cycle, ', '));
    v_hop     text;
begin
    -- The cycle is seen as the steps are looked at, as far as the machine has states for that.
    foreach v_hop in array array['initializing', 'waiting_for_dependencies'] loop
        perform postrider.task_move(p_task_uuid, v_hop, jsonb_build_object('reason', v_message))
           from postrider.tasker_tasks k
           join postrider.tasker_named_tasks n using (named_task_uuid)
           join postrider.tasker_machine_transitions a on a.state_machine_id = n.state_machine_id and a.from_state = k.state and a.to_state = v_hop
          where k.task_uuid = p_task_uuid;
    end loop;
    select k.state, k.sort_key, m.failed_state, g.reason_dependency_cycle_detected as letters into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
      join postrider.tasker_settings g on g.only_row
     where k.task_uuid = p_task_uuid;
    if t.failed_state is not null then
        perform postrider.task_move(p_task_uuid, t.failed_state, jsonb_build_object('reason', v_message,
            'error', jsonb_build_object('category', 'fatal', 'reason', 'DEPENDENCY_CYCLE_DETECTED', 'steps', to_jsonb(p_cycle))));
    end if;
    if t.letters then
        perform postrider.task_dead_letter(p_task_uuid, 'dependency_cycle_detected', t.state, t.sort_key, 'DEPENDENCY_CYCLE_DETECTED',
            v_message, jsonb_build_object('steps', to_jsonb(p_cycle)));
    end if;
end $$;
comment on function postrider.task_end_cycle(uuid, text[]) is
'Internal. Sends a new task whose steps form a cycle to its failed state, if its machine has one, with a dead letter unless reason_dependency_cycle_detected is off.';
revoke all on function postrider.task_end_cycle(uuid, text[]) from public;
