create or replace function postrider.detectors_pause(p_by text, p_reason text, p_seconds double precision) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.access_owe();
    -- What somebody paused without an end is not given one by a pause that has an end, and a detector shortens no pause.
    update postrider.tasker_detector d
    set paused_at = c.now, paused_by = p_by, pause_reason = nullif(p_reason, ''),
        resume_at = case when p_seconds > 0 then c.now + make_interval(secs => p_seconds) end
    from (select clock_timestamp() as now offset 0) c
    where p_seconds = 0 or d.paused_at is null
       or d.resume_at is not null and (p_by <> 'latency_limit' or d.resume_at < c.now + make_interval(secs => p_seconds));
end $$;
comment on function postrider.detectors_pause(text, text, double precision) is
'Pauses all detectors of stale tasks, for so many seconds; 0 is until somebody resumes them, and such a pause is given no end.';
revoke all on function postrider.detectors_pause(text, text, double precision) from public;
