create or replace function postrider.access_owe_change() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.access_owe();
    return null;
end $$;
comment on function postrider.access_owe_change() is 'access_owe, for tables that operators write themselves.';
revoke all on function postrider.access_owe_change() from public;
