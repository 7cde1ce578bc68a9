create or replace function postrider.task_candidates(p_now timestamptz, p_namespace text, p_waiting_deps integer, p_waiting_retry integer,
    p_in_process integer, p_lifetime integer, p_half_life integer)
returns table(task_uuid uuid, namespace text, template text, state text, begun boolean, priority integer, weight double precision, created_at timestamptz)
language sql stable
-- Hash joins: the tasks are many, or thought to be few; the states of the templates are few.
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_nestloop = off set enable_mergejoin = off set jit = off as $$
    with bound as materialized (
        select n.named_task_uuid, ns.name as namespace, n.name as template, st.state, st.kind,
               p_now - make_interval(mins => coalesce(
                   postrider.lifecycle_minutes(n.configuration->'lifecycle', 'max_' || st.state || '_minutes'),
                   postrider.lifecycle_minutes(ns.lifecycle, 'max_' || st.state || '_minutes'),
                   case st.state when 'waiting_for_dependencies' then p_waiting_deps
                                 when 'waiting_for_retry' then p_waiting_retry
                                 when 'steps_in_process' then p_in_process
                                 else 1440 end)) as entered_since,
               p_now - make_interval(mins => coalesce(
                   postrider.lifecycle_minutes(n.configuration->'lifecycle', 'max_duration_minutes'),
                   postrider.lifecycle_minutes(ns.lifecycle, 'max_duration_minutes'), p_lifetime)) as created_since
          from postrider.tasker_task_namespaces ns
          join postrider.tasker_named_tasks n using (task_namespace_uuid)
          join postrider.tasker_machine_states st on st.state_machine_id = n.state_machine_id and st.kind in ('initial', 'active', 'waiting')
         where p_namespace is null or ns.name = p_namespace
    ), ready as materialized (
        -- Written so that only tasker_tasks_ready can find them: the other indexes have waiting tasks, too.
        select k.task_uuid, k.named_task_uuid, k.state, k.priority, k.created_at, coalesce(k.resumed_at, k.created_at) as began_at,
               coalesce(k.stay_from, k.state_entered_at) as stay_began
          from postrider.tasker_tasks k
         where k.ready_at <= p_now and coalesce(k.live, false)
    )
    select k.task_uuid, b.namespace, b.template, k.state, b.kind <> 'initial', k.priority,
           postrider.task_weight(k.priority, k.created_at, p_now, p_half_life), k.created_at
      from ready k
      join bound b using (named_task_uuid, state)
     where k.stay_began >= b.entered_since and k.began_at >= b.created_since
$$;
comment on function postrider.task_candidates(timestamptz, text, integer, integer, integer, integer, integer) is
'Internal. All tasks with something to do that are not stale, with what they weigh; see get_next_ready_tasks. Times in minutes.';
revoke all on function postrider.task_candidates(timestamptz, text, integer, integer, integer, integer, integer) from public;
