create or replace function postrider.task_follow_steps(p_task_uuid uuid, p_may_recover boolean, p_metadata jsonb default null) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t        record;
    v_step   record;
    v_wanted text;
    v_to     text;
    v_hop    text;
    v_path   text[];
    v_code   text;
begin
    select k.state, k.sort_key, s.kind, n.state_machine_id, m.complete_state, m.failed_state, m.cancelled_state, g.reason_max_retries_exceeded as letters
      into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
      join postrider.tasker_machine_states s on s.state_machine_id = n.state_machine_id and s.state = k.state
      join postrider.tasker_settings g on g.only_row
     where k.task_uuid = p_task_uuid;
    if t.kind = 'terminal' then
        return t.state;
    end if;
    perform postrider.task_cancel_dependants(p_task_uuid, p_metadata);
    if t.kind = 'failed' and not p_may_recover then
        return t.state;
    end if;
    v_wanted := postrider.task_derived_state(p_task_uuid);
    -- Out of a failed state leads only what goes on by itself.
    if v_wanted is null or t.kind = 'failed' and v_wanted in ('error', 'blocked_by_failures', 'waiting_for_dependencies', 'cancelled') then
        return t.state;
    end if;
    v_to := case v_wanted when 'complete' then t.complete_state when 'error' then t.failed_state when 'cancelled' then t.cancelled_state else v_wanted end;
    if v_to <> t.state then
        v_path := postrider.task_path(t.state_machine_id, t.state, v_to);
        foreach v_hop in array coalesce(v_path, '{}') loop
            perform postrider.task_move(p_task_uuid, v_hop, coalesce(p_metadata, '{"reason": "the steps ask for it"}'));
        end loop;
    end if;
    -- Spent retries, and a failure that no retry can mend: a person has to look at once.
    if t.letters and (v_wanted = 'error' or v_wanted = 'blocked_by_failures' and cardinality(v_path) > 0) then
        select f.step_name, f.max_retries, f.retry_count, coalesce(f.last_error, 'no error was given') as error into v_step
          from postrider.tasker_workflow_steps f
         where f.task_uuid = p_task_uuid and f.status = 'error' and (v_wanted <> 'error' or f.retry_count >= f.max_retries)
         order by f.state_entered_at desc limit 1;
        v_code := case v_wanted when 'error' then 'MAX_RETRIES_EXCEEDED' else 'FAILED_FOR_GOOD' end;
        perform postrider.task_dead_letter(p_task_uuid, 'max_retries_exceeded', t.state, t.sort_key, v_code,
            case v_wanted when 'error' then format('step %s failed and %s: %s', v_step.step_name, case v_step.max_retries when 0 then 'has no retries'
                    when 1 then 'its retry is spent' else format('its %s retries are spent', v_step.max_retries) end, v_step.error)
                          else format('step %s failed for good: %s', v_step.step_name, v_step.error) end,
            coalesce(p_metadata, '{}') || jsonb_build_object('error', jsonb_build_object('category', 'fatal', 'reason', v_code,
                'retry_count', v_step.retry_count, 'step', v_step.step_name)));
    end if;
    return case when cardinality(v_path) > 0 then v_to else t.state end;
end $$;
comment on function postrider.task_follow_steps(uuid, boolean, jsonb) is
'Internal. Takes a task where its steps lead it, over as many transitions as its machine needs, and returns the state it has then. First it cancels what depends on a cancelled step, see task_cancel_dependants. A task stays if its machine does not have that state, or no way there. p_may_recover: out of a failed state too, which only a change for the better of a step may do. The caller holds the task''s row lock.';
revoke all on function postrider.task_follow_steps(uuid, boolean, jsonb) from public;
