create or replace function postrider.task_check_thresholds(
    p_waiting_deps_threshold_minutes integer, p_waiting_retry_threshold_minutes integer, p_steps_in_process_threshold_minutes integer,
    p_task_max_lifetime_hours integer, p_worker_unavailable_minutes integer default null)
returns void language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_bad text;
begin
    -- A thousand years: much more than that is no interval of PostgreSQL.
    select format('%s is %s, it must be from 0 to %s', a.name, a.value, a.most) into v_bad
      from (values ('p_waiting_deps_threshold_minutes', p_waiting_deps_threshold_minutes, 525600000),
                   ('p_waiting_retry_threshold_minutes', p_waiting_retry_threshold_minutes, 525600000),
                   ('p_steps_in_process_threshold_minutes', p_steps_in_process_threshold_minutes, 525600000),
                   ('p_task_max_lifetime_hours', p_task_max_lifetime_hours, 8760000),
                   ('p_worker_unavailable_minutes', p_worker_unavailable_minutes, 525600000)) a(name, value, most)
     where a.value not between 0 and a.most limit 1;
    if found then
        raise exception using errcode = '22023', message = 'postrider: ' || v_bad, hint = 'Leave it out to take the default.';
    end if;
end $$;
comment on function postrider.task_check_thresholds(integer, integer, integer, integer, integer) is
'Internal. Raises 22023 for a threshold that is negative or longer than a thousand years.';
revoke all on function postrider.task_check_thresholds(integer, integer, integer, integer, integer) from public;
