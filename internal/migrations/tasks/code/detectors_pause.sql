create or replace function postrider.detectors_pause(p_by text, p_reason text, p_seconds double precision) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.access_owe();
    -- A pause with an end gives no end to a pause without one, and a detector shortens no pause.
    update postrider.tasker_detector d
    set paused_at = c.now, paused_by = p_by, pause_reason = nullif(p_reason, ''),
        resume_at = case when p_seconds > 0 then c.now + make_interval(secs => p_seconds) end
    from (select clock_timestamp() as now offset 0) c
    where p_seconds = 0 or d.paused_at is null
       or d.resume_at is not null and (p_by <> 'latency_limit' or d.resume_at < c.now + make_interval(secs => p_seconds));
end $$;
comment on function postrider.detectors_pause(text, text, double precision) is
'Pauses all detectors of stale tasks, for p_seconds; 0 is until they are resumed, and a later pause with an end gives that pause no end.';
revoke all on function postrider.detectors_pause(text, text, double precision) from public;
