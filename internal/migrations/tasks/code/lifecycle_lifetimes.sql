-- Without settings of its own, so that it is inlined, and a query that has enough rows looks for no more of them. Who
-- calls it switches off the plans that tempt the planner.
create or replace function postrider.lifecycle_lifetimes(p_share double precision, p_task_max_lifetime_hours integer, p_after uuid default null, p_until uuid default null)
returns table (named_task_uuid uuid, lifetime interval)
language sql stable as $$
    select o.named_task_uuid, p_share operator(pg_catalog.*) pg_catalog.make_interval(mins => coalesce(
        postrider.lifecycle_minutes(o.template, 'max_duration_minutes'), postrider.lifecycle_minutes(o.namespace, 'max_duration_minutes'),
        p_task_max_lifetime_hours operator(pg_catalog.*) 60))
    from postrider.lifecycle_templates(p_after, p_until) o
$$;
comment on function postrider.lifecycle_lifetimes(double precision, integer, uuid, uuid) is
'Internal. For each template that has live tasks which are not flagged: how old they may become.';
revoke all on function postrider.lifecycle_lifetimes(double precision, integer, uuid, uuid) from public;
