create or replace function postrider.dlq_retry_figures() returns table(as_of timestamptz, content jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with summary as materialized (
        select s.as_of, s.content from postrider.dashboard_figures('dlq') s
    )
    select s.as_of, s.content from summary s
    union all
    select statement_timestamp(), (select coalesce(jsonb_agg(to_jsonb(n)), '[]') from postrider.dlq_retry_numbers() n)
    where not exists (select from summary)
$$;
comment on function postrider.dlq_retry_figures() is
'What dlq_retry_numbers returns, as it was a short while ago where somebody keeps it, and as it is now elsewhere; and since when. For v_dlq_dashboard.';
revoke all on function postrider.dlq_retry_figures() from public;
