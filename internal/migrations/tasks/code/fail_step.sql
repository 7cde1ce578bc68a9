create or replace function postrider.fail_step(p_step_uuid uuid, p_error text, p_retryable boolean default true, p_retry_after interval default null,
    p_fencing_number integer default null)
returns text language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    v_step    postrider.tasker_workflow_steps := postrider.step_lock(p_step_uuid, 'fail a step');
    v_seconds double precision;
    v_status  text;
begin
    perform postrider.step_fence(v_step, 'fail', p_fencing_number);
    if v_step.status not in ('enqueued', 'in_progress') then
        perform postrider.step_refuse(v_step, 'fail', 'enqueued or in_progress');
    end if;
    if p_retry_after < interval '0' or p_retry_after > interval '365 days' then
        raise exception using errcode = '22023', message = format('postrider: retry_after is %s, it must be from 0 to 365 days', p_retry_after),
            hint = 'Leave it out, and the pauses of the template hold.';
    end if;
    v_step.last_error := coalesce(nullif(left(p_error, 10000), ''), 'no error was given');
    if coalesce(p_retryable, true) and v_step.retry_count < v_step.max_retries then
        v_status := 'waiting_for_retry';
        v_step.retry_count := v_step.retry_count + 1;
        -- 2^52 is past every limit, and short of an overflow.
        v_seconds := least(v_step.retry_base_seconds * power(2, least(v_step.retry_count - 1, 52)), v_step.retry_max_seconds) * (1 + 0.2 * random());
        v_step.next_retry_at := clock_timestamp() + coalesce(p_retry_after, make_interval(secs => v_seconds));
    else
        v_status := 'error';
        v_step.next_retry_at := null;
    end if;
    perform postrider.step_set(v_step, v_status, jsonb_build_object('reason', v_step.last_error));
    perform postrider.task_follow_steps(v_step.task_uuid, false, jsonb_build_object('reason',
        left(format('step %s failed: %s', v_step.step_name, v_step.last_error), 10000)));
    return v_status;
end $$;
comment on function postrider.fail_step(uuid, text, boolean, interval, integer) is
'For workers: a step failed. While it has retries it waits for the next (retry_base_seconds doubling up to retry_max_seconds, plus up to a fifth; or p_retry_after): returns waiting_for_retry. p_error is kept to 10,000 characters. Otherwise, or if it is not retryable, returns error: once nothing else can go on, the task is failed if the retries are spent, blocked if it was not retryable, and dead-lettered. p_fencing_number is what start_step returned: if the step was taken from this worker since, the call is refused with 55000; null does not ask.';
revoke all on function postrider.fail_step(uuid, text, boolean, interval, integer) from public;
