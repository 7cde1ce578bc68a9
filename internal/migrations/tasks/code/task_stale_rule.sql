create or replace function postrider.task_stale_rule(p_named_task_uuid uuid, p_state text, p_now timestamptz, p_settings postrider.tasker_settings)
returns table (stay integer, stay_source text, lifetime integer, lifetime_source text, reason postrider.dlq_reason, silent_minutes bigint,
    moves boolean, letter boolean, rule text)
language sql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
    with own as materialized (
        select n.state_machine_id, m.failed_state, n.task_namespace_uuid, n.configuration->'lifecycle' as template, ns.lifecycle as namespace,
               jsonb_typeof(n.configuration->'steps') = 'array' and n.configuration->'steps' <> '[]' as has_steps
          from postrider.tasker_named_tasks n
          join postrider.tasker_task_namespaces ns on ns.task_namespace_uuid = n.task_namespace_uuid
          join postrider.tasker_state_machines m on m.state_machine_id = n.state_machine_id
         where n.named_task_uuid = p_named_task_uuid
    ), given as materialized (
        select o.*, postrider.lifecycle_minutes(o.template, 'max_' || p_state || '_minutes') as stay_of_template,
               postrider.lifecycle_minutes(o.namespace, 'max_' || p_state || '_minutes') as stay_of_namespace,
               postrider.lifecycle_minutes(o.template, 'max_duration_minutes') as life_of_template,
               postrider.lifecycle_minutes(o.namespace, 'max_duration_minutes') as life_of_namespace,
               coalesce(o.template->>'staleness_action', o.namespace->>'staleness_action', 'dlq') as action,
               coalesce(o.template->'auto_fail_on_timeout', o.namespace->'auto_fail_on_timeout', 'true') <> 'false' as auto_fail,
               coalesce(o.template->'auto_dlq_on_timeout', o.namespace->'auto_dlq_on_timeout', 'true') <> 'false' as auto_dlq,
               (select p_now - max(w.last_heartbeat_at) from postrider.tasker_workers w where w.task_namespace_uuid = o.task_namespace_uuid) as silent
          from own o
    ), with_workers as materialized (
        -- A namespace without a known worker may have workers that say nothing of themselves. But where steps wait for a worker
        -- and none has begun, there is none.
        select g.*, case when g.silent is not null then g.silent > make_interval(mins => (p_settings).worker_unavailable_minutes)
                         else coalesce(g.has_steps, false) and (p_state = 'enqueuing_steps' or postrider.task_state_kind(g.state_machine_id, p_state) = 'initial')
                    end as no_worker
          from given g
    ), done as materialized (
        select j.*,
               j.action <> 'manual_review' and j.auto_fail and (p_settings).auto_transition_to_error
                   and exists (select from postrider.tasker_machine_transitions a
                                where a.state_machine_id = j.state_machine_id and a.from_state = p_state and a.to_state = j.failed_state) as moves,
               j.action <> 'error' and j.auto_dlq and (p_settings).auto_move_to_dlq
                   and case when j.no_worker then (p_settings).reason_worker_unavailable else (p_settings).reason_staleness_timeout end as letter,
               coalesce(j.stay_of_template, j.stay_of_namespace, case p_state
                   when 'waiting_for_dependencies' then (p_settings).waiting_for_dependencies_minutes
                   when 'waiting_for_retry' then (p_settings).waiting_for_retry_minutes
                   when 'steps_in_process' then (p_settings).steps_in_process_minutes
                   else 1440 end) as stay,
               coalesce(j.life_of_template, j.life_of_namespace, (p_settings).task_max_lifetime_hours * 60) as lifetime
          from with_workers j
    )
    select d.stay, case when d.stay_of_template is not null then 'template' when d.stay_of_namespace is not null then 'namespace' else 'default' end,
           d.lifetime, case when d.life_of_template is not null then 'template' when d.life_of_namespace is not null then 'namespace' else 'default' end,
           case when d.no_worker then 'worker_unavailable' else 'staleness_timeout' end::postrider.dlq_reason,
           floor(extract(epoch from d.silent) / 60)::bigint, d.moves, d.letter,
           format('state %s, lifetime %s: %s', d.stay, d.lifetime, case when d.moves and d.letter then 'move_to_dlq' when d.moves then 'transition_to_error'
                                                                        when d.letter then 'manual_review' else 'flag' end)
      from done d
$$;
comment on function postrider.task_stale_rule(uuid, text, timestamptz, postrider.tasker_settings) is
'Internal. By which thresholds, in minutes, tasks of a template are stale in a state, whose these are (template, namespace, default), and what is then done with them: moves to the failed state, a dead letter, for which reason. rule has all of it that decides whether a task which was left in place is looked at again. silent_minutes: since the last heartbeat in the namespace, null if there never was one.';
revoke all on function postrider.task_stale_rule(uuid, text, timestamptz, postrider.tasker_settings) from public;
