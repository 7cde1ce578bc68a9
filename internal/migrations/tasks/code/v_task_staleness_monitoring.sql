create or replace view postrider.v_task_staleness_monitoring as
with summary as materialized (
    select s.as_of, s.content from postrider.dashboard_summary s
    where s.name = 'staleness' and s.as_of > statement_timestamp() - interval '5 minutes' and s.as_of <= statement_timestamp()
), figures as (
    select r.current_state, r.task_count, r.avg_minutes_in_state, r.max_minutes_in_state, r.stale_over_1h, r.stale_over_1day, r.top_stale_tasks,
           r.warning, r.stale, s.as_of
    from summary s
    cross join lateral jsonb_to_recordset(s.content) as r(current_state text, task_count bigint, avg_minutes_in_state double precision,
        max_minutes_in_state double precision, stale_over_1h bigint, stale_over_1day bigint, top_stale_tasks uuid[], warning bigint, stale bigint)
    union all
    select n.current_state, n.task_count, n.avg_minutes_in_state, n.max_minutes_in_state, n.stale_over_1h, n.stale_over_1day, n.top_stale_tasks,
           n.warning, n.stale, statement_timestamp()
    from postrider.task_staleness_now() n
    where not exists (select from summary)
)
select f.* from figures f order by f.stale_over_1h desc, f.current_state;
comment on view postrider.v_task_staleness_monitoring is
'Live tasks by state: how many, how long they have been in it, and how many for more than an hour or a day. warning counts tasks past the share tasker_settings.warn_percent of a threshold (of the state, or of their lifetime), but past no threshold; stale counts tasks past one. top_stale_tasks are the hundred longest stays of more than an hour without progress, the longest first. as_of says when it was counted: at most five minutes ago.';
