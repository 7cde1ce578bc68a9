create or replace function postrider.detectors_pause(p_by text, p_reason text, p_seconds double precision) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.access_owe();
    -- A pause with an end gives no end to a pause without one, and a detector shortens no pause. The reason of a pause that has
    -- not ended stays, before the new one.
    update postrider.tasker_detector d
    set paused_at = c.now, paused_by = p_by,
        pause_reason = left(nullif(concat_ws('; ',
            case when d.paused_at is not null and coalesce(d.resume_at > c.now, true) and d.pause_reason is distinct from p_reason
                 then d.pause_reason end, nullif(p_reason, '')), ''), 4096),
        resume_at = case when p_seconds > 0 then c.now + make_interval(secs => p_seconds) end
    from (select clock_timestamp() as now offset 0) c
    where p_seconds = 0 or d.paused_at is null
       or d.resume_at is not null and (p_by <> 'latency_limit' or d.resume_at < c.now + make_interval(secs => p_seconds));
end $$;
comment on function postrider.detectors_pause(text, text, double precision) is
'Pauses all detectors of stale tasks, for p_seconds; 0 is until they are resumed, and a later pause with an end gives that pause no end. The reason of a pause that has not ended stays, before the new one.';
revoke all on function postrider.detectors_pause(text, text, double precision) from public;
