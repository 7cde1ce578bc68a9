create or replace function postrider.dashboard_figures(p_name text) returns table(as_of timestamptz, content jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.as_of, s.content from postrider.dashboard_summary s
    where s.name = p_name and s.as_of > statement_timestamp() - interval '5 minutes' and s.as_of <= statement_timestamp()
$$;
comment on function postrider.dashboard_figures(text) is
'Internal. Figures as they were a short while ago; no row if they were not renewed in the last five minutes.';
revoke all on function postrider.dashboard_figures(text) from public;
