create or replace function postrider.task_move(p_task_uuid uuid, p_to_state text, p_metadata jsonb default null) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    t       record;
    v_now   timestamptz := clock_timestamp();
    v_ready timestamptz;
    v_error text := coalesce(p_metadata->>'error_reason', p_metadata->>'reason');
begin
    select k.state, k.sort_key, s.kind,
           s.kind = 'failed' or p_to_state in (coalesce(m.failed_state, ''), coalesce(m.dead_letter_state, '')) as failing into t
      from postrider.tasker_tasks k
      join postrider.tasker_named_tasks n using (named_task_uuid)
      join postrider.tasker_state_machines m using (state_machine_id)
      left join postrider.tasker_machine_states s on s.state_machine_id = n.state_machine_id and s.state = p_to_state
     where k.task_uuid = p_task_uuid
       for update of k;
    if not found then
        raise exception using errcode = 'P0002', message = format('postrider: there is no task %s', coalesce(p_task_uuid::text, 'null'));
    end if;
    if t.kind is null then
        raise exception using errcode = '22023', message = format('postrider: task %s cannot go from %s to %s: its template has no such state',
            p_task_uuid, t.state, coalesce(p_to_state, 'null'));
    end if;
    v_ready := postrider.task_ready_at(p_task_uuid, t.kind);
    update postrider.tasker_task_transitions set most_recent = false where task_uuid = p_task_uuid and most_recent;
    insert into postrider.tasker_task_transitions (task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at)
    values (p_task_uuid, t.state, p_to_state, p_metadata, t.sort_key + 1, true, v_now);
    update postrider.tasker_tasks k
       set state = p_to_state, live = t.kind in ('initial', 'active', 'waiting'), state_entered_at = v_now,
           sort_key = t.sort_key + 1, stale_flagged_at = null, stale_rule = '', stale_until = null, updated_at = v_now,
           ready_at = v_ready, stay_from = case when t.kind = 'waiting' and v_ready > v_now then v_ready end,
           resumed_at = case when t.kind in ('initial', 'active', 'waiting') and not k.live then v_now else k.resumed_at end,
           completed_at = case when t.kind = 'terminal' then v_now end,
           error_reason = case when t.kind in ('failed', 'terminal') then coalesce(case when t.failing then v_error end, k.error_reason) end,
           metadata = case when t.kind not in ('failed', 'terminal') then k.metadata - 'error'
                           when p_metadata ? 'error' then jsonb_set(k.metadata, '{error}', p_metadata->'error')
                           else k.metadata end
     where k.task_uuid = p_task_uuid;
    perform postrider.task_event(p_task_uuid, 'transitioned', jsonb_build_object(
        'from_state', t.state, 'to_state', p_to_state, 'sort_key', t.sort_key + 1, 'occurred_at', v_now,
        'actor', p_metadata->>'actor', 'reason', p_metadata->>'reason', 'metadata', p_metadata));
    return t.sort_key + 1;
end $$;
comment on function postrider.task_move(uuid, text, jsonb) is
'Internal. Puts a task into a state of its machine whether or not the machine allows that from where it is, with its history and its event; returns the number of the transition. Who calls it decides whether it may: see transition_task_state_atomic. In a failed state, and in an end that has the role failed or dead_letter, error_reason comes from p_metadata''s error_reason, else its reason; metadata.error comes from its error; live states clear both.';
revoke all on function postrider.task_move(uuid, text, jsonb) from public;
