create or replace function postrider.task_settings(
    p_waiting_deps_threshold_minutes integer default null, p_waiting_retry_threshold_minutes integer default null,
    p_steps_in_process_threshold_minutes integer default null, p_task_max_lifetime_hours integer default null)
returns postrider.tasker_settings language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    s postrider.tasker_settings;
begin
    select g.* into strict s from postrider.tasker_settings g;
    s.waiting_for_dependencies_minutes := coalesce(p_waiting_deps_threshold_minutes, s.waiting_for_dependencies_minutes);
    s.waiting_for_retry_minutes := coalesce(p_waiting_retry_threshold_minutes, s.waiting_for_retry_minutes);
    s.steps_in_process_minutes := coalesce(p_steps_in_process_threshold_minutes, s.steps_in_process_minutes);
    s.task_max_lifetime_hours := coalesce(p_task_max_lifetime_hours, s.task_max_lifetime_hours);
    return s;
end $$;
comment on function postrider.task_settings(integer, integer, integer, integer) is
'Internal. The settings of the ledger, with these thresholds in place of its own where they are not null.';
revoke all on function postrider.task_settings(integer, integer, integer, integer) from public;
