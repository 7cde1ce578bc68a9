create or replace function postrider.task_check_json(p_value jsonb, p_what text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    -- Far below what readers of JSON take, and what of a task goes into a letter goes some levels deeper.
    if p_value @? '$.**{501}' then
        raise exception using errcode = '22023', message = format('postrider: %s is nested more than 500 levels deep; make it flatter', p_what);
    end if;
    -- As it is written out: 1e131000 takes 8 bytes to send and 131,001 to everybody who reads it.
    if octet_length(p_value::text) > 2097152 then
        raise exception using errcode = '22023', message = format('postrider: %s is %s bytes as text, it must be 2097152 at most; keep large things elsewhere and refer to them',
            p_what, octet_length(p_value::text));
    end if;
end $$;
comment on function postrider.task_check_json(jsonb, text) is 'Internal. Raises 22023 for JSON that is nested so deeply, or so large when it is written out, that not everybody could read it.';
revoke all on function postrider.task_check_json(jsonb, text) from public;
