create or replace function postrider.near_stale_task_ids(p_named_tasks uuid[] default null, p_state text default null)
returns table (task_uuid uuid)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off set jit = off
as $$
#variable_conflict use_column
declare
    v_settings postrider.tasker_settings;
    v_share    double precision;
begin
    v_settings := postrider.task_settings(null, null, null, null);
    v_share := v_settings.warn_percent / 100.0::double precision;
    return query
    select c.task_uuid
    from postrider.lifecycle_stays(v_share, v_settings.waiting_for_dependencies_minutes, v_settings.waiting_for_retry_minutes,
                                   v_settings.steps_in_process_minutes) b
    cross join lateral (
        select t.task_uuid from postrider.tasker_tasks t
        where t.live and t.stale_flagged_at is null and t.named_task_uuid = b.named_task_uuid and t.state = b.state
          and coalesce(t.stay_from, t.state_entered_at) < (select clock_timestamp()) - b.stay
        order by coalesce(t.stay_from, t.state_entered_at) limit 1000) c
    where (p_named_tasks is null or b.named_task_uuid = any (p_named_tasks)) and (p_state is null or b.state = p_state)
    union
    select c.task_uuid
    from postrider.lifecycle_lifetimes(v_share, v_settings.task_max_lifetime_hours) b
    cross join lateral (
        select t.task_uuid, t.state from postrider.tasker_tasks t
        where t.live and t.stale_flagged_at is null and t.named_task_uuid = b.named_task_uuid
          and coalesce(t.resumed_at, t.created_at) < (select clock_timestamp()) - b.lifetime
        order by coalesce(t.resumed_at, t.created_at) limit 1000) c
    where (p_named_tasks is null or b.named_task_uuid = any (p_named_tasks))
      and (p_state is null or c.state = p_state); -- behind the limit: no index has both
end $$;
comment on function postrider.near_stale_task_ids(uuid[], text) is
'The tasks that near_stale_tasks counts with the share and the thresholds of tasker_settings, each once: of each template and state the 1000 that are there longest, and of each template the 1000 oldest. With p_named_tasks only tasks of these templates, with p_state only tasks in this state.';
revoke all on function postrider.near_stale_task_ids(uuid[], text) from public;
