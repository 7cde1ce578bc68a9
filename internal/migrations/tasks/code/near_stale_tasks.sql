create or replace function postrider.near_stale_tasks(
    p_share double precision default 0.8, p_waiting_deps_threshold_minutes integer default null,
    p_waiting_retry_threshold_minutes integer default null, p_steps_in_process_threshold_minutes integer default null,
    p_task_max_lifetime_hours integer default null, p_limit integer default 1000)
returns table (threshold_kind text, tasks bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off set jit = off
as $$
#variable_conflict use_column
declare
    v_settings postrider.tasker_settings;
begin
    perform postrider.task_check_thresholds(p_waiting_deps_threshold_minutes, p_waiting_retry_threshold_minutes, p_steps_in_process_threshold_minutes,
                                            p_task_max_lifetime_hours);
    v_settings := postrider.task_settings(p_waiting_deps_threshold_minutes, p_waiting_retry_threshold_minutes, p_steps_in_process_threshold_minutes,
                                          p_task_max_lifetime_hours);
    return query
    select 'state', coalesce(sum(c.tasks), 0)::bigint
    from postrider.lifecycle_stays(p_share, v_settings.waiting_for_dependencies_minutes, v_settings.waiting_for_retry_minutes,
                                   v_settings.steps_in_process_minutes) b
    cross join lateral (
        select count(*) as tasks from (
            select from postrider.tasker_tasks t
            where t.live and t.stale_flagged_at is null and t.named_task_uuid = b.named_task_uuid and t.state = b.state
              and coalesce(t.stay_from, t.state_entered_at) < (select clock_timestamp()) - b.stay
            order by coalesce(t.stay_from, t.state_entered_at) limit p_limit) t) c
    union all
    select 'lifetime', coalesce(sum(c.tasks), 0)::bigint
    from postrider.lifecycle_lifetimes(p_share, v_settings.task_max_lifetime_hours) b
    cross join lateral (
        select count(*) as tasks from (
            select from postrider.tasker_tasks t
            where t.live and t.stale_flagged_at is null and t.named_task_uuid = b.named_task_uuid
              and coalesce(t.resumed_at, t.created_at) < (select clock_timestamp()) - b.lifetime
            order by coalesce(t.resumed_at, t.created_at) limit p_limit) t) c;
end $$;
comment on function postrider.near_stale_tasks(double precision, integer, integer, integer, integer, integer) is
'How many tasks are past a share of the threshold of their state, and of their lifetime; a task may be in both. Of each template and state no more than p_limit are counted. A threshold that is null comes from tasker_settings.';
revoke all on function postrider.near_stale_tasks(double precision, integer, integer, integer, integer, integer) from public;
