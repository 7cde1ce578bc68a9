create or replace function postrider.flagged_rules(p_now timestamptz, p_settings postrider.tasker_settings)
returns table (named_task_uuid uuid, state text, stay interval, lifetime interval, rule text)
language sql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
    with recursive pair as (
        (select t.named_task_uuid, t.state from postrider.tasker_tasks t
          where t.live and t.stale_flagged_at is not null
          order by t.named_task_uuid, t.state, t.stale_rule, t.stale_until limit 1)
        union all
        select n.named_task_uuid, n.state
          from pair p
         cross join lateral (
            select t.named_task_uuid, t.state from postrider.tasker_tasks t
             where t.live and t.stale_flagged_at is not null and (t.named_task_uuid, t.state) > (p.named_task_uuid, p.state)
             order by t.named_task_uuid, t.state, t.stale_rule, t.stale_until limit 1) n
    )
    select p.named_task_uuid, p.state, make_interval(mins => r.stay), make_interval(mins => r.lifetime), r.rule
      from pair p
     cross join lateral postrider.task_stale_rule(p.named_task_uuid, p.state, p_now, p_settings) r
$$;
comment on function postrider.flagged_rules(timestamptz, postrider.tasker_settings) is
'Internal. For each template and each state that has flagged tasks: the rule by which its tasks are stale now. It reads one task per template and state.';
revoke all on function postrider.flagged_rules(timestamptz, postrider.tasker_settings) from public;
