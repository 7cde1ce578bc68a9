-- It returns one row: taken for a thousand, the view was compiled (jit) before each reading, which took seconds.
create or replace function postrider.dlq_retry_figures() returns table(as_of timestamptz, content jsonb)
language sql stable security definer rows 1 set search_path = pg_catalog, pg_temp as $$
    with summary as materialized (
        select s.as_of, s.content from postrider.dashboard_figures('dlq') s
    )
    select s.as_of, s.content from summary s
    union all
    select statement_timestamp(), (select coalesce(jsonb_agg(to_jsonb(n)), '[]') from postrider.dlq_retry_numbers() n)
    where not exists (select from summary)
$$;
comment on function postrider.dlq_retry_figures() is
'The result of dlq_retry_numbers, and when it was computed. If a recent summary is stored, the result is taken from it; otherwise it is computed now. For v_dlq_dashboard.';
revoke all on function postrider.dlq_retry_figures() from public;
