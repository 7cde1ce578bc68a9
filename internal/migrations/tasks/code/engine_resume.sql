create or replace function postrider.engine_resume(p_engine text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    paused boolean;
begin
    select s.paused_at is not null and (s.resume_at is null or s.resume_at > clock_timestamp()) into paused
    from postrider.tasker_switch s where s.engine = p_engine for update;
    if not found then
        raise exception using errcode = '22023', message = format('postrider: p_engine is %s, it must be archiver or detector', coalesce(p_engine, 'null')),
            hint = 'Other engines cannot be paused.';
    end if;
    if paused then
        perform postrider.access_owe(array[p_engine || '.resume'], p_engine);
    end if; -- otherwise the pause that is removed had ended by itself
    update postrider.tasker_switch s set paused_at = null, paused_by = null, pause_reason = null, resume_at = null
    where s.engine = p_engine and s.paused_at is not null;
    return paused;
end $$;
comment on function postrider.engine_resume(text) is 'Ends a pause of all engines of a kind (archiver or detector); false means that there was none.';
revoke all on function postrider.engine_resume(text) from public;
