create or replace function postrider.refresh_dashboards(
    p_waiting_deps_threshold_minutes integer default null, p_waiting_retry_threshold_minutes integer default null,
    p_steps_in_process_threshold_minutes integer default null, p_task_max_lifetime_hours integer default null, p_min_age interval default '0')
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_began   timestamptz := clock_timestamp();
    v_content jsonb;
begin
    -- If another session is refreshing, this one does nothing. A reader never waits. A summary with a time in the future was
    -- counted by a clock that was ahead.
    if (select count(*) from (select from postrider.dashboard_summary s where s.as_of <= v_began - p_min_age or s.as_of > v_began for update skip locked) l) < 2 then
        return false;
    end if;
    select coalesce(jsonb_agg(to_jsonb(n)), '[]') into v_content
    from postrider.task_staleness_now(p_waiting_deps_threshold_minutes, p_waiting_retry_threshold_minutes, p_steps_in_process_threshold_minutes,
                                      p_task_max_lifetime_hours) n;
    update postrider.dashboard_summary set as_of = v_began, content = v_content,
        took_ms = (extract(epoch from clock_timestamp() - v_began) * 1000)::integer where name = 'staleness';
    v_began := clock_timestamp();
    v_content := '[]';
    if to_regprocedure('postrider.dlq_retry_numbers()') is not null then -- where there is a desk
        select coalesce(jsonb_agg(to_jsonb(n)), '[]') into v_content from postrider.dlq_retry_numbers() n;
    end if;
    update postrider.dashboard_summary set as_of = v_began, content = v_content,
        took_ms = (extract(epoch from clock_timestamp() - v_began) * 1000)::integer where name = 'dlq';
    perform postrider.tasks_merge_counts();
    return true;
end $$;
comment on function postrider.refresh_dashboards(integer, integer, integer, integer, interval) is
'Renews the summaries behind v_task_staleness_monitoring and v_dlq_dashboard, with the default thresholds given, or the ones of tasker_settings. False, and nothing is done, if they are younger than p_min_age or another session is renewing them. It also merges rows of tasker_task_counts, where they are many.';
revoke all on function postrider.refresh_dashboards(integer, integer, integer, integer, interval) from public;
