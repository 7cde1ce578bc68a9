create or replace function postrider.detectors_resume() returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    paused boolean;
begin
    select d.paused_at is not null and (d.resume_at is null or d.resume_at > clock_timestamp()) into paused
    from postrider.tasker_detector d for update;
    if paused then
        perform postrider.access_owe();
    end if; -- otherwise the pause that is removed had ended by itself
    update postrider.tasker_detector d set paused_at = null, paused_by = null, pause_reason = null, resume_at = null where d.paused_at is not null;
    return paused;
end $$;
comment on function postrider.detectors_resume() is 'Ends a pause of the detectors; false means that there was none.';
revoke all on function postrider.detectors_resume() from public;
