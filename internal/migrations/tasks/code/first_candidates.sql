create or replace function postrider.first_candidates(p_now timestamptz, p_namespace text, p_waiting_deps integer, p_waiting_retry integer,
    p_in_process integer, p_lifetime integer, p_half_life integer, p_limit integer)
returns table(task_uuid uuid, namespace text, template text, state text, begun boolean, priority integer, weight double precision, created_at timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_sort = off set enable_memoize = off set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
    -- An older task has the least weight possible; one with a time in the future weighs no more than one of now.
    v_ancient timestamptz := p_now - make_interval(mins => least(p_half_life::bigint * 1000, 525600000)::integer);
begin
    return query
    with recursive template as materialized (
        select n.named_task_uuid, ns.name as namespace, n.name as template, m.initial_state,
               p_now - make_interval(mins => coalesce(
                   postrider.lifecycle_minutes(n.configuration->'lifecycle', 'max_duration_minutes'),
                   postrider.lifecycle_minutes(ns.lifecycle, 'max_duration_minutes'), p_lifetime)) as began_since,
               (select jsonb_object_agg(st.state, coalesce(
                           postrider.lifecycle_minutes(n.configuration->'lifecycle', 'max_' || st.state || '_minutes'),
                           postrider.lifecycle_minutes(ns.lifecycle, 'max_' || st.state || '_minutes'),
                           case st.state when 'waiting_for_dependencies' then p_waiting_deps
                                         when 'waiting_for_retry' then p_waiting_retry
                                         when 'steps_in_process' then p_in_process
                                         else 1440 end))
                  from postrider.tasker_machine_states st
                 where st.state_machine_id = n.state_machine_id and st.kind in ('initial', 'active', 'waiting')) as stays
          from postrider.tasker_named_tasks n
          join postrider.tasker_task_namespaces ns on ns.task_namespace_uuid = n.task_namespace_uuid
          join postrider.tasker_state_machines m on m.state_machine_id = n.state_machine_id
         where p_namespace is null or ns.name = p_namespace
    ), above as ( -- each priority by one step down the index
        select m.named_task_uuid, (
                   select k.priority from postrider.tasker_tasks k
                    where k.ready_at is not null and k.priority > 0 and k.named_task_uuid = m.named_task_uuid
                    order by k.priority desc limit 1) as priority
          from template m
        union all
        select a.named_task_uuid, (
                   select k.priority from postrider.tasker_tasks k
                    where k.ready_at is not null and k.priority > 0 and k.named_task_uuid = a.named_task_uuid
                      and k.priority < a.priority
                    order by k.priority desc limit 1)
          from above a where a.priority is not null
    ), below as (
        select m.named_task_uuid, (
                   select k.priority from postrider.tasker_tasks k
                    where k.ready_at is not null and k.priority <= 0 and k.named_task_uuid = m.named_task_uuid
                    order by k.priority desc limit 1) as priority
          from template m
        union all
        select b.named_task_uuid, (
                   select k.priority from postrider.tasker_tasks k
                    where k.ready_at is not null and k.priority <= 0 and k.named_task_uuid = b.named_task_uuid
                      and k.priority < b.priority
                    order by k.priority desc limit 1)
          from below b where b.priority is not null
    ), line as materialized (
        select a.named_task_uuid, a.priority, s.newest_first, s.after, s.until
          from above a
         cross join (values (true, v_ancient, p_now), (false, p_now, 'infinity'::timestamptz), (false, '-infinity'::timestamptz, v_ancient)) s(newest_first, after, until)
         where a.priority is not null
        union all
        select b.named_task_uuid, b.priority, false, '-infinity'::timestamptz, 'infinity'::timestamptz from below b where b.priority is not null
    ), head as materialized (
        -- If the first task of a line comes behind the first ones of p_limit other lines, it has none of the wanted tasks.
        select l.*, m.namespace, m.template, m.initial_state, m.began_since, m.stays
          from template m
          join line l on l.named_task_uuid = m.named_task_uuid
         cross join lateral postrider.tasks_in_turn(l.named_task_uuid, l.priority, l.newest_first, l.after, l.until, p_now, m.stays, m.began_since, 1) t
         order by postrider.task_weight(l.priority, t.created_at, p_now, p_half_life) desc, t.created_at, t.task_uuid
         limit p_limit
    )
    select t.task_uuid, h.namespace, h.template, t.state, t.state <> h.initial_state, h.priority,
           postrider.task_weight(h.priority, t.created_at, p_now, p_half_life), t.created_at
      from head h
     cross join lateral postrider.tasks_in_turn(h.named_task_uuid, h.priority, h.newest_first, h.after, h.until, p_now, h.stays, h.began_since, p_limit) t
     order by 7 desc, t.created_at, t.task_uuid
     limit p_limit;
end $$;
comment on function postrider.first_candidates(timestamptz, text, integer, integer, integer, integer, integer, integer) is
'Internal. The p_limit tasks that task_candidates would put first, found without looking at the others: of each template and priority the tasks stand in the order of an index, and these lines are merged.';
revoke all on function postrider.first_candidates(timestamptz, text, integer, integer, integer, integer, integer, integer) from public;
