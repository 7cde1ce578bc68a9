create or replace function postrider.dlq_count_nothing() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.dlq_recount();
    return null;
end $$;
comment on function postrider.dlq_count_nothing() is 'Counts anew after all investigations were removed.';
revoke all on function postrider.dlq_count_nothing() from public;
