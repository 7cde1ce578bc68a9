create or replace function postrider.template_refuse(p_what text, p_hint text default null) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    raise exception using errcode = '22023', message = 'postrider: ' || p_what,
        hint = coalesce(p_hint, 'postrider template validate tells everything that is wrong with a template, and where.');
end $$;
comment on function postrider.template_refuse(text, text) is 'Internal. Refuses a template, with error 22023.';
revoke all on function postrider.template_refuse(text, text) from public;
