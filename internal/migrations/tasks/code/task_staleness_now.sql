create or replace function postrider.task_staleness_now(
    p_waiting_deps_threshold_minutes integer default null, p_waiting_retry_threshold_minutes integer default null,
    p_steps_in_process_threshold_minutes integer default null, p_task_max_lifetime_hours integer default null)
returns table(current_state text, task_count bigint, avg_minutes_in_state double precision, max_minutes_in_state double precision,
    stale_over_1h bigint, stale_over_1day bigint, top_stale_tasks uuid[], warning bigint, stale bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
    v_settings postrider.tasker_settings;
begin
    perform postrider.task_check_thresholds(p_waiting_deps_threshold_minutes, p_waiting_retry_threshold_minutes, p_steps_in_process_threshold_minutes,
                                            p_task_max_lifetime_hours);
    v_settings := postrider.task_settings(p_waiting_deps_threshold_minutes, p_waiting_retry_threshold_minutes, p_steps_in_process_threshold_minutes,
                                          p_task_max_lifetime_hours);
    return query
    with given as materialized (
        select n.named_task_uuid, m.state,
               coalesce(postrider.lifecycle_minutes(n.configuration->'lifecycle', 'max_' || m.state || '_minutes'),
                        postrider.lifecycle_minutes(s.lifecycle, 'max_' || m.state || '_minutes'),
                        case m.state when 'waiting_for_dependencies' then v_settings.waiting_for_dependencies_minutes
                                     when 'waiting_for_retry' then v_settings.waiting_for_retry_minutes
                                     when 'steps_in_process' then v_settings.steps_in_process_minutes else 1440 end) as stay,
               coalesce(postrider.lifecycle_minutes(n.configuration->'lifecycle', 'max_duration_minutes'),
                        postrider.lifecycle_minutes(s.lifecycle, 'max_duration_minutes'),
                        v_settings.task_max_lifetime_hours * 60) as life
        from postrider.tasker_named_tasks n
        join postrider.tasker_task_namespaces s on s.task_namespace_uuid = n.task_namespace_uuid
        join postrider.tasker_machine_states m on m.state_machine_id = n.state_machine_id
        where m.kind in ('initial', 'active', 'waiting')
    ), thresholds as materialized (
        select g.named_task_uuid, g.state,
               statement_timestamp() - make_interval(mins => g.stay) as stay_since, statement_timestamp() - w.share * make_interval(mins => g.stay) as stay_warned,
               statement_timestamp() - make_interval(mins => g.life) as life_since, statement_timestamp() - w.share * make_interval(mins => g.life) as life_warned
        from given g
        cross join (select v_settings.warn_percent / 100.0::double precision as share) w
    ), counted as (
        select t.state, count(*) as tasks, 
               -- A clock that was wrong must not make the mean of all negative, or of geological length: from none to the
               -- thousand years that are the longest threshold.
               sum(least(greatest(date_part('epoch', statement_timestamp()) - date_part('epoch', t.state_entered_at), 0), 31536000000)) as seconds,
               min(t.state_entered_at) as since,
               count(*) filter (where t.state_entered_at < statement_timestamp() - interval '1 hour') as over_1h,
               count(*) filter (where t.state_entered_at < statement_timestamp() - interval '1 day') as over_1day,
               count(*) filter (where coalesce(t.stay_from, t.state_entered_at) < h.stay_since or coalesce(t.resumed_at, t.created_at) < h.life_since) as stale,
               count(*) filter (where coalesce(t.stay_from, t.state_entered_at) < h.stay_warned or coalesce(t.resumed_at, t.created_at) < h.life_warned) as warned
        from postrider.tasker_tasks t
        left join thresholds h on h.named_task_uuid = t.named_task_uuid and h.state = t.state
        where t.live
        group by t.state
    ), longest as (
        select h.state, l.task_uuid, l.stay_began,
               row_number() over (partition by h.state order by l.stay_began, l.task_uuid) as place
        from thresholds h
        cross join lateral (
            (select t.task_uuid, coalesce(t.stay_from, t.state_entered_at) as stay_began from postrider.tasker_tasks t
             where t.named_task_uuid = h.named_task_uuid and t.state = h.state and t.live and t.stale_flagged_at is null
               and coalesce(t.stay_from, t.state_entered_at) < statement_timestamp() - interval '1 hour'
             order by coalesce(t.stay_from, t.state_entered_at) limit 100)
            union all
            (select t.task_uuid, coalesce(t.stay_from, t.state_entered_at) as stay_began from postrider.tasker_tasks t
             where t.named_task_uuid = h.named_task_uuid and t.state = h.state and t.live and t.stale_flagged_at is not null
               and coalesce(t.stay_from, t.state_entered_at) < statement_timestamp() - interval '1 hour'
             order by coalesce(t.stay_from, t.state_entered_at) limit 100)) l
    )
    select c.state, c.tasks, c.seconds / c.tasks / 60, least(greatest(date_part('epoch', statement_timestamp()) - date_part('epoch', c.since), 0), 31536000000) / 60, c.over_1h, c.over_1day,
           (select array_agg(l.task_uuid order by l.place) from longest l where l.state = c.state and l.place <= 100),
           c.warned - c.stale, c.stale
    from counted c;
end $$;
comment on function postrider.task_staleness_now(integer, integer, integer, integer) is
'The figures of v_task_staleness_monitoring, counted now over every live task, with the default thresholds given, or the ones of tasker_settings, and its warn_percent. A stay counts as 0 to 525600000 minutes, whatever the clock said. With a million live tasks it takes about a second.';
revoke all on function postrider.task_staleness_now(integer, integer, integer, integer) from public;
