create or replace function postrider.engine_pause(p_engine text, p_by text, p_reason text, p_seconds double precision) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_before  postrider.tasker_switch;
    v_now     timestamptz;
    v_goes_on boolean;
begin
    select s.* into v_before from postrider.tasker_switch s where s.engine = p_engine for update;
    if not found then
        raise exception using errcode = '22023', message = format('postrider: p_engine is %s, it must be archiver or detector', coalesce(p_engine, 'null')),
            hint = 'Other engines cannot be paused.';
    end if;
    perform postrider.access_owe(array[p_engine || '.pause'], p_engine);
    v_now := clock_timestamp();
    v_goes_on := v_before.paused_at is not null and coalesce(v_before.resume_at > v_now, true);
    -- A pause with an end gives no end to a pause without one, and a detector shortens no pause. Who paused before, and why,
    -- stays before the new ones while that pause has not ended.
    update postrider.tasker_switch s
    set paused_at = v_now,
        paused_by = case when not v_goes_on then p_by when p_by = any (string_to_array(s.paused_by, ', ')) then s.paused_by
                         else left(concat_ws(', ', s.paused_by, p_by), 4096) end,
        pause_reason = left(nullif(concat_ws('; ',
            case when v_goes_on and s.pause_reason is distinct from p_reason then s.pause_reason end, nullif(p_reason, '')), ''), 4096),
        resume_at = case when p_seconds > 0 then v_now + make_interval(secs => p_seconds) end
    where s.engine = p_engine
      and (p_seconds = 0 or s.paused_at is null
           or s.resume_at is not null and (p_by <> 'latency_limit' or s.resume_at < v_now + make_interval(secs => p_seconds)));
end $$;
comment on function postrider.engine_pause(text, text, text, double precision) is
'Pauses all engines of a kind (archiver or detector), for p_seconds; 0 is until they are resumed, and a later pause with an end gives that pause no end. Who made a pause that has not ended, and why, stays before the new ones.';
revoke all on function postrider.engine_pause(text, text, text, double precision) from public;
